"""A device plugin for the kubelet of node.py: the kubelet's API v1beta1 by gRPC, of which it takes four messages of a field or two each, so they are
written by hand here."""
import concurrent.futures
import pathlib
import queue

import grpc

FOLDER = pathlib.Path("/var/lib/kubelet/device-plugins")  # wherever else the kubelet's own folder is
SERVICE = "v1beta1.DevicePlugin"


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    """Bytes, text or an embedded message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(data):
    """[(number, bytes)] of a message that has no others."""
    def number():
        nonlocal at
        shift = value = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    at, found = 0, []
    while at < len(data):
        key, size = number(), number()
        found.append((key >> 3, data[at:at + size]))
        at += size
    return found


class Plugin:
    """Offers these devices. `allocate(ids)` -> the variables of the container that gets them; what it raises is why the pod is refused."""

    def __init__(self, resource, devices, allocate):
        self.resource, self.allocate = resource, allocate
        self.lists = queue.SimpleQueue()
        self.lists.put(devices)
        self.socket = FOLDER / f"{resource.replace('/', '-')}.sock"
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        methods = {"GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda request, context: b""),
                   "ListAndWatch": grpc.unary_stream_rpc_method_handler(self.list_and_watch),
                   "Allocate": grpc.unary_unary_rpc_method_handler(self.on_allocate)}
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
        self.server.add_insecure_port(f"unix://{self.socket}")
        self.server.start()
        with grpc.insecure_channel(f"unix://{FOLDER}/kubelet.sock") as kubelet:
            kubelet.unary_unary("/v1beta1.Registration/Register")(field(1, "v1beta1") + field(2, self.socket.name) + field(3, resource), timeout=30)

    def list_and_watch(self, _, context):
        while (devices := self.lists.get()) is not None:
            yield b"".join(field(1, field(1, name) + field(2, "Healthy")) for name in devices)

    def on_allocate(self, request, context):
        answers = []
        for _, container in fields(request):
            try:
                variables = self.allocate([name.decode() for _, name in fields(container)])
            except RuntimeError as refusal:
                context.abort(grpc.StatusCode.UNKNOWN, str(refusal))
            answers.append(field(1, b"".join(field(1, field(1, key) + field(2, value)) for key, value in variables.items())))
        return b"".join(answers)

    def stop(self):
        self.lists.put(None)
        self.server.stop(None).wait()
