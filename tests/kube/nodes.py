"""Nodes of clusters as data: what their device plugins, GPU Feature Discovery and clouds write on them.

A node is a dict: name, labels, taints, capacity (what is counted), devices ({resource: [ids]}: which of them a container gets), and where it has them
`unhealthy` ({resource: how many of its devices}), `shared_max` (most turns of a shared device that one container may ask for), `gpu_mem` (units of each GPU) and `slice` (devices for claims)."""

# product -> (MiB, compute major, minor, family)
PRODUCTS = {
    "NVIDIA-A100-SXM4-40GB": (40960, 8, 0, "ampere"),
    "NVIDIA-H100-80GB-HBM3": (81559, 9, 0, "hopper"),
    "Tesla-T4": (15360, 7, 5, "turing"),
    "NVIDIA-L4": (23034, 8, 9, "ada-lovelace"),
}
NVIDIA_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
CLOUDS = {
    "gke": ("cloud.google.com/gke-accelerator", {"Tesla-T4": "nvidia-tesla-t4", "NVIDIA-L4": "nvidia-l4", "NVIDIA-A100-SXM4-40GB": "nvidia-tesla-a100"}),
    "eks": ("k8s.amazonaws.com/accelerator", {"Tesla-T4": "nvidia-tesla-t4", "NVIDIA-L4": "nvidia-l4"}),
    "karpenter": ("karpenter.k8s.aws/instance-gpu-name", {"Tesla-T4": "t4", "NVIDIA-L4": "l4", "NVIDIA-A100-SXM4-40GB": "a100"}),
    "aks": ("kubernetes.azure.com/accelerator", {}),  # "nvidia", whatever the product
}


def node(name, cpu="8", memory="32Gi", pods=110, arch="amd64", labels=None, taints=(), devices=None, **more):
    """Any node. `devices`: {resource: [ids]}."""
    devices = devices or {}
    return {"name": name, "devices": devices, "taints": list(taints),
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch, **(labels or {})},
            "capacity": {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi",
                         **{resource: str(len(ids)) for resource, ids in devices.items()}}, **more}


cpu = node


def labels_of_gpu(product, count, strategy="none", suffix="", memory_mib=None):
    mib, major, minor, family = PRODUCTS[product]
    return {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product + suffix, "nvidia.com/gpu.count": str(count),
            "nvidia.com/gpu.memory": str(memory_mib or mib), "nvidia.com/gpu.family": family, "nvidia.com/gpu.compute.major": str(major),
            "nvidia.com/gpu.compute.minor": str(minor), "nvidia.com/gpu.sharing-strategy": strategy}


def uuids(name, count, prefix="GPU"):
    return [f"{prefix}-{name}-{i}" for i in range(count)]


def gpu(name, count=4, product="NVIDIA-A100-SXM4-40GB", taint=True, **more):
    """Whole GPUs, with the labels of GPU Feature Discovery."""
    return node(name, **{"labels": labels_of_gpu(product, count), "taints": [NVIDIA_TAINT] if taint else [],
                         "devices": {"nvidia.com/gpu": uuids(name, count)}, **more})


def cloud(name, which="gke", count=1, product="Tesla-T4", by_hand=False, **more):
    """Whole GPUs of a cloud without GPU Feature Discovery. Karpenter says their memory, too; `by_hand`: somebody has set of the discovery's labels what a cloud
    that says only "nvidia" needs."""
    label, values = CLOUDS[which]
    mib, major, minor, _ = PRODUCTS[product]
    labels = {label: values.get(product, "nvidia")}
    if which == "karpenter":
        labels["karpenter.k8s.aws/instance-gpu-memory"] = str(mib)
    if by_hand:
        labels.update({"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": str(mib), "nvidia.com/gpu.compute.major": str(major),
                       "nvidia.com/gpu.compute.minor": str(minor)})
    taint = {"key": "sku", "value": "gpu", "effect": "NoSchedule"} if which == "aks" else NVIDIA_TAINT
    return node(name, **{"labels": labels, "taints": [taint], "devices": {"nvidia.com/gpu": uuids(name, count)}, **more})


def mig_single(name, profile="1g.5gb", count=7, product="NVIDIA-A100-SXM4-40GB", **more):
    """All of it cut alike, and called GPUs."""
    mib = int(float(profile.split(".")[1].split("gb")[0]) * 1024) - 256
    labels = {**labels_of_gpu(product, count, suffix=f"-MIG-{profile}", memory_mib=mib), "nvidia.com/mig.strategy": "single", "nvidia.com/mig.capable": "true"}
    return node(name, **{"labels": labels, "taints": [NVIDIA_TAINT], "devices": {"nvidia.com/gpu": uuids(name, count, "MIG")}, **more})


def mig_mixed(name, profiles=None, product="NVIDIA-A100-SXM4-40GB", **more):
    """A resource a profile: {"1g.5gb": 3, "2g.10gb": 2}."""
    profiles = profiles or {"1g.5gb": 3, "2g.10gb": 2}
    labels = {**labels_of_gpu(product, 1), "nvidia.com/mig.strategy": "mixed", "nvidia.com/mig.capable": "true"}
    labels.update({f"nvidia.com/mig-{profile}.count": str(count) for profile, count in profiles.items()})
    devices = {f"nvidia.com/mig-{profile}": uuids(f"{name}-{profile}", count, "MIG") for profile, count in profiles.items()}
    return node(name, **{"labels": labels, "taints": [NVIDIA_TAINT], "devices": devices, **more})


def time_slicing(name, count=1, replicas=4, product="Tesla-T4", rename=False, strategy="time-slicing", **more):
    """Each GPU `replicas` times; renamed to nvidia.com/gpu.shared, or with -SHARED in the product."""
    labels = {**labels_of_gpu(product, count, strategy, "" if rename else "-SHARED"), "nvidia.com/gpu.replicas": str(replicas)}
    turns = [f"{device}::{turn}" for device in uuids(name, count) for turn in range(replicas)]
    return node(name, **{"labels": labels, "taints": [NVIDIA_TAINT], "shared_max": 1,
                         "devices": {"nvidia.com/gpu.shared" if rename else "nvidia.com/gpu": turns}, **more})


def mps(name, **more):
    return time_slicing(name, strategy="mps", **more)


def gpu_mem(name, gpus=2, each=16, product="Tesla-T4", **more):
    """Memory of GPUs as aliyun.com/gpu-mem, `each` in GiB or in MiB: the plugin's choice; what a container asks for is of one GPU."""
    made = node(name, **{"labels": {"gpushare": "true", **labels_of_gpu(product, gpus)}, "gpu_mem": [each] * gpus, **more})
    made["capacity"].update({"aliyun.com/gpu-mem": str(gpus * each), "aliyun.com/gpu-count": str(gpus)})
    return made


def vendor(name, resource="amd.com/gpu", count=4, **more):
    """GPUs of others than NVIDIA."""
    return node(name, **{"taints": [{"key": resource, "effect": "NoSchedule"}], "devices": {resource: uuids(name, count)}, **more})


def dra(name, count=2, product="NVIDIA A100-SXM4-40GB", mib=40960, compute="8.0.0", driver="gpu.nvidia.com", kind="gpu", **more):
    """Devices that are claimed (resource.k8s.io); no device plugin. `kind`: "gpu", or "mig" for parts of one."""
    devices = [{"name": f"{kind}-{i}", "attributes": {"type": {"string": kind}, "uuid": {"string": f"GPU-{name}-{i}"}, "index": {"int": i},
                                                   "productName": {"string": product}, "cudaComputeCapability": {"version": compute}},
                "capacity": {"memory": {"value": f"{mib}Mi"}}} for i in range(count)]
    return node(name, **{"labels": {"nvidia.com/gpu.present": "true"}, "taints": [NVIDIA_TAINT], "slice": {"driver": driver, "devices": devices}, **more})


def device_classes(driver="gpu.nvidia.com"):
    """What admins, or the driver's installation, make once: one for whole devices, one for parts."""
    return [{"metadata": {"name": f"{kind}.{driver.partition('.')[2]}"},
             "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"}}]}}
            for kind in ("gpu", "mig")]


def manifest(made):
    """The v1 Node that is POSTed; its status follows (`status`)."""
    return {"metadata": {"name": made["name"], "labels": made["labels"]}, "spec": {"taints": made["taints"]}}


def status(made, port, now):
    """Its status while it is well; `port`: where its kubelet answers."""
    def condition(kind, value, reason, message):
        return {"type": kind, "status": value, "reason": reason, "message": message, "lastHeartbeatTime": now, "lastTransitionTime": now}

    healthy = {key: str(int(value) - made["unhealthy"][key]) if key in made.get("unhealthy", {}) else value for key, value in made["capacity"].items()}
    return {"capacity": made["capacity"], "allocatable": healthy, "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": {"architecture": made["labels"]["kubernetes.io/arch"], "operatingSystem": "linux", "kubeletVersion": "v1.34.2",
                         "containerRuntimeVersion": "containerd://simulated", "bootID": "", "kernelVersion": "", "machineID": "", "osImage": "",
                         "systemUUID": "", "kubeProxyVersion": ""},
            "conditions": [condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                           condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                           condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                           condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")]}
