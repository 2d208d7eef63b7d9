// link: pipelined/kube/pod_state
/* pod_state: each way in which a pod waits or ends → whose business it is, and the sentence. */
#include "pipelined/kube/pod_state/pod_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NODE                                                                                                                     \
    "\"spec\": {\"nodeName\": \"n1\", \"containers\": [{\"name\": \"main\", \"image\": \"reg/x:1\"}, {\"name\": \"agent\"}]}"
#define LIMITED(limit)                                                                                                           \
    "\"spec\": {\"nodeName\": \"n1\", \"containers\": [{\"name\": \"main\", \"resources\": {\"limits\": {\"memory\": \"" limit   \
    "\"}}}]}"
#define CONTAINER(name, state) "{\"name\": \"" name "\", \"state\": {" state "}}"
#define ENDED(code, reason, message)                                                                                             \
    "\"terminated\": {\"exitCode\": " code ", \"reason\": \"" reason "\", \"message\": \"" message "\"}"
#define WAITING(reason, message) "\"waiting\": {\"reason\": \"" reason "\", \"message\": \"" message "\"}"
#define BOTH(main_state)                                                                                                         \
    "\"containerStatuses\": [" CONTAINER("main", main_state) ", " CONTAINER("agent", ENDED("0", "Completed", "")) "]"
#define EVENT(reason, time, message)                                                                                             \
    "{\"reason\": \"" reason "\", \"lastTimestamp\": \"2026-11-22T10:00:" time "Z\", \"message\": \"" message "\"}"
#define VOLUME(spec) "{\"name\": \"pl\", \"ephemeral\": {\"volumeClaimTemplate\": {\"spec\": {" spec "}}}}"
#define UNBOUND                                                                                                                  \
    "{\"type\": \"PodScheduled\", \"status\": \"False\", \"reason\": \"Unschedulable\", \"message\": "                           \
    "\"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.\"}"

static const struct {
    const char *pod, *events;
    struct pl_pod_asked asked;
    enum pl_pod_verdict verdict;
    const char *why; /* begins with; "" = nothing is said */
    int exit_code;
    bool no_growth;
} cases[] = {
    /* waiting for a node */
    {"{}", NULL, {0}, PL_POD_WAITS, "the scheduler has not examined the pod yet", -1},
    {"{\"spec\": {\"schedulerName\": \"default-scheduler\"}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "the scheduler has not examined the pod yet",
     -1},
    {"{\"spec\": {\"schedulerName\": \"kai-scheduler\"}, \"status\": {\"phase\": \"Pending\"}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "scheduler kai-scheduler has not examined the pod yet: does the cluster have a scheduler of that name?",
     -1},
    {"{\"status\": {\"phase\": \"Pending\", \"conditions\": [{\"type\": \"PodScheduled\", \"status\": \"False\", \"reason\": "
     "\"Unschedulable\", "
     "\"message\": \"0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\"}]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
     -1},
    {"{\"status\": {\"phase\": \"Pending\", \"conditions\": [{\"type\": \"PodScheduled\", \"status\": \"False\", \"reason\": "
     "\"SchedulingGated\", \"message\": \"Scheduling is blocked due to non-empty scheduling gates\"}]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "Scheduling is blocked due to non-empty scheduling gates",
     -1},
    {"{\"metadata\": {\"labels\": {\"kueue.x-k8s.io/queue-name\": \"team-a\"}}, \"spec\": {\"schedulingGates\": [{\"name\": "
     "\"kueue.x-k8s.io/admission\"}]}, \"status\": {\"phase\": \"Pending\"}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "queue team-a has not admitted the pod yet: Scheduling is blocked due to non-empty scheduling gates "
     "(kueue.x-k8s.io/admission)",
     -1},
    {"{\"spec\": {\"schedulingGates\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}, \"status\": {\"phase\": \"Pending\"}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "Scheduling is blocked due to non-empty scheduling gates (a, b)",
     -1},
    {"{\"status\": {\"phase\": \"Pending\"}}",
     "[" EVENT("FailedScheduling", "01", "first") ", " EVENT("FailedScheduling", "09",
                                                             "0/9 nodes") ", " EVENT("FailedScheduling", "05", "second") "]",
     {0},
     PL_POD_WAITS,
     "0/9 nodes",
     -1},
    {"{\"status\": {\"phase\": \"Pending\"}}",
     "[" EVENT("FailedScheduling", "01", "0/9 nodes") ", " EVENT(
         "NotTriggerScaleUp", "02", "pod didn't trigger scale-up: 1 max node group size reached") "]",
     {0},
     PL_POD_WAITS,
     "0/9 nodes; pod didn't trigger scale-up: 1 max node group size reached",
     -1,
     true},
    {"{\"status\": {\"phase\": \"Pending\"}}",
     "[" EVENT("NotTriggerScaleUp", "02", "no") ", " EVENT(
         "TriggeredScaleUp", "03", "pod triggered scale-up: [{g 1->2}]") ", " EVENT("FailedScheduling", "01", "0/9 nodes") "]",
     {0},
     PL_POD_WAITS,
     "0/9 nodes; pod triggered scale-up: [{g 1->2}]",
     -1},
    {"{\"status\": {\"phase\": \"Pending\"}}",
     "[{\"reason\": \"FailedScheduling\", \"lastTimestamp\": null, \"eventTime\": \"2026-11-22T10:00:07.123456Z\", \"note\": "
     "\"by the new name\"}]",
     {0},
     PL_POD_WAITS,
     "by the new name",
     -1},
    /* waiting for a volume of its own: the scheduler does not say of which class */
    {"{\"spec\": {\"volumes\": [{\"name\": \"shm\", \"emptyDir\": {}}, " VOLUME(
         "\"storageClassName\": \"fast\"") "]}, \"status\": {\"conditions\": [" UNBOUND "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "StorageClass \"fast\" has not provided the pod's volume: does the cluster have a class of that name? (0/2 nodes are "
     "available: pod has unbound immediate PersistentVolumeClaims.)",
     -1},
    {"{\"spec\": {\"volumes\": [" VOLUME("") "]}, \"status\": {\"conditions\": [" UNBOUND "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "the default StorageClass has not provided the pod's volume: does the cluster have one? (0/2 nodes",
     -1},
    {"{\"spec\": {\"volumes\": [{\"name\": \"pl\", \"emptyDir\": {}}]}, \"status\": {\"conditions\": [" UNBOUND "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
     -1},
    /* waiting on the node */
    {"{" NODE "}", NULL, {0}, PL_POD_WAITS, "node n1 is creating the pod's containers", -1},
    {"{" NODE "}",
     "[" EVENT("Pulling", "01", "Pulling image \\\"reg/x:1\\\"") "]",
     {0},
     PL_POD_WAITS,
     "node n1: Pulling image \"reg/x:1\"",
     -1},
    {"{" NODE "}",
     "[" EVENT("Pulling", "05", "p") ", " EVENT("FailedMount", "01", "MountVolume.SetUp failed for volume \\\"ca\\\"") "]",
     {0},
     PL_POD_WAITS,
     "node n1: MountVolume.SetUp failed for volume \"ca\"",
     -1},
    {"{" NODE "}", "[" EVENT("FailedCreatePodSandBox", "01", "cni") "]", {0}, PL_POD_WAITS, "node n1: cni", -1},
    {"{" NODE
     ", \"status\": {\"phase\": \"Pending\", \"containerStatuses\": [" CONTAINER("main", WAITING("ContainerCreating", "")) "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "node n1 is creating the pod's containers",
     -1},
    {"{\"metadata\": {\"deletionTimestamp\": \"2026-11-22T10:00:00Z\"}, " NODE
     ", \"status\": {\"phase\": \"Pending\", \"containerStatuses\": [" CONTAINER("main", WAITING("ContainerCreating", "")) "]}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was deleted",
     -1},
    {"{\"metadata\": {\"deletionTimestamp\": \"2026-11-22T10:00:00Z\"}, " NODE
     ", \"status\": {\"phase\": \"Pending\", \"conditions\": [{\"type\": \"DisruptionTarget\", \"status\": \"True\", \"reason\": "
     "\"DeletionByTaintManager\", \"message\": \"Taint manager: deleting due to NoExecute taint\"}], \"containerStatuses\": "
     "[" CONTAINER("main", WAITING("ImagePullBackOff", "Back-off pulling image")) "]}}",
     NULL,
     {.waited_ms = 24LL * 3600 * 1000},
     PL_POD_ELSEWHERE,
     "its pod was preempted: DeletionByTaintManager: Taint manager: deleting due to NoExecute taint",
     -1},
    /* deleted with its grace: what it was told to do is not its own end; its memory is */
    {"{\"metadata\": {\"deletionTimestamp\": \"2026-11-22T10:00:00Z\"}, " NODE
     ", \"status\": {\"phase\": \"Failed\", " BOTH(ENDED("143", "Error", "Terminated")) "}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was deleted",
     143},
    {"{\"metadata\": {\"deletionTimestamp\": \"2026-11-22T10:00:00Z\"}, " NODE
     ", \"status\": {\"phase\": \"Failed\", " BOTH(ENDED("137", "OOMKilled", "")) "}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "OOMKilled: node n1 had no memory left",
     137},
    {"{\"metadata\": {\"deletionTimestamp\": \"2026-11-22T10:00:00Z\"}, \"status\": {\"phase\": \"Pending\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was deleted",
     -1},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("ErrImagePull", "manifest unknown")) "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "ErrImagePull of main: manifest unknown",
     -1},
    {"{" NODE
     ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("ImagePullBackOff", "Back-off pulling image")) "]}}",
     "[" EVENT("Failed", "01", "Failed to pull image: manifest unknown") "]",
     {0, PL_POD_PULL_MS - 1},
     PL_POD_WAITS,
     "ImagePullBackOff of main: Failed to pull image: manifest unknown",
     -1},
    {"{" NODE
     ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("ImagePullBackOff", "Back-off pulling image")) "]}}",
     "[" EVENT("Failed", "01", "Failed to pull image: manifest unknown") ", " EVENT("Failed", "02",
                                                                                    "Error: ImagePullBackOff") "]",
     {0},
     PL_POD_WAITS,
     "ImagePullBackOff of main: Failed to pull image: manifest unknown",
     -1},
    {"{" NODE
     ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("ImagePullBackOff", "Back-off pulling image")) "]}}",
     NULL,
     {0, PL_POD_PULL_MS},
     PL_POD_GIVEN_UP,
     "ImagePullBackOff of main: Back-off pulling image: check the image's name",
     -1},
    {"{" NODE
     ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("InvalidImageName", "couldn't parse \\\"A B\\\"")) "]}}",
     NULL,
     {0},
     PL_POD_GIVEN_UP,
     "InvalidImageName of main: couldn't parse \"A B\": correct \"image\"",
     -1},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("ErrImageNeverPull", "")) "]}}",
     NULL,
     {0},
     PL_POD_GIVEN_UP,
     "ErrImageNeverPull of main: reg/x:1: the image is not on the node",
     -1},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("CreateContainerConfigError",
                                                                                  "secret \\\"pg\\\" not found")) "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "CreateContainerConfigError of main: secret \"pg\" not found",
     -1},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("CreateContainerConfigError",
                                                                                  "secret \\\"pg\\\" not found")) "]}}",
     NULL,
     {0, PL_POD_CONFIG_MS},
     PL_POD_GIVEN_UP,
     "CreateContainerConfigError of main: secret \"pg\" not found: check the names",
     -1},
    {"{" NODE ", \"status\": {\"initContainerStatuses\": [" CONTAINER(
         "install",
         WAITING("ImagePullBackOff", "b")) "], \"containerStatuses\": [" CONTAINER("main", WAITING("PodInitializing", "")) "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "ImagePullBackOff of install: b",
     -1},
    {"{" NODE
     ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("CreateContainerError", "name is in use")) "]}}",
     NULL,
     {0, PL_POD_CONFIG_MS},
     PL_POD_GIVEN_UP,
     "CreateContainerError of main: name is in use: the node cannot create",
     -1},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER("main", WAITING("RunContainerError", "x")) "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "RunContainerError of main: x",
     -1},
    /* running */
    {"{" NODE ", \"status\": {\"phase\": \"Running\", \"containerStatuses\": [" CONTAINER("main", "\"running\": {}") "]}}",
     NULL,
     {0},
     PL_POD_RUNS,
     "",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Running\", \"containerStatuses\": [" CONTAINER(
         "main", ENDED("0", "Completed", "")) ", " CONTAINER("agent", "\"running\": {}") "]}}",
     NULL,
     {0},
     PL_POD_RUNS,
     "",
     0},
    {"{" NODE
     ", \"status\": {\"phase\": \"Running\", \"conditions\": [{\"type\": \"DisruptionTarget\", \"status\": \"True\", \"reason\": "
     "\"PreemptionByScheduler\", \"message\": \"preempting to accommodate a higher priority pod\"}], \"containerStatuses\": "
     "[" CONTAINER("main", "\"running\": {}") "]}}",
     NULL,
     {0},
     PL_POD_RUNS,
     "its pod was preempted: PreemptionByScheduler: preempting to accommodate a higher priority pod",
     -1},
    /* over, whatever the phase; an injected container may live on */
    {"{" NODE ", \"status\": {\"phase\": \"Running\", " BOTH(ENDED("0", "Completed", "")) "}}", NULL, {0}, PL_POD_OVER, "", 0},
    {"{" NODE ", \"status\": {\"phase\": \"Succeeded\", " BOTH(ENDED("0", "Completed", "")) "}}", NULL, {0}, PL_POD_OVER, "", 0},
    /* the user's doing */
    {"{\"metadata\": {\"namespace\": \"ml\"}, " LIMITED("2Gi") ", \"status\": {\"phase\": \"Failed\", " BOTH(
         ENDED("137", "OOMKilled", "")) "}}",
     NULL,
     {2LL << 30},
     PL_POD_FAILED,
     "OOMKilled: the command needs more than the 2Gi of its resources.memory",
     137},
    {"{\"metadata\": {\"namespace\": \"ml\", \"annotations\": {\"kubernetes.io/limit-ranger\": \"LimitRanger plugin set: memory "
     "limit for "
     "container main\"}}, " LIMITED("512Mi") ", \"status\": {" BOTH(ENDED("137", "OOMKilled", "")) "}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "OOMKilled: the command needs more than 512Mi, the limit that a LimitRange of namespace ml sets: set resources.memory",
     137},
    {"{\"metadata\": {\"namespace\": \"ml\"}, " LIMITED("512Mi") ", \"status\": {" BOTH(ENDED("137", "OOMKilled", "")) "}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "OOMKilled: the command needs more than 512Mi, the limit that a LimitRange or webhook of namespace ml sets",
     137},
    {"{" LIMITED("512Mi") ", \"status\": {" BOTH(ENDED("137", "OOMKilled", "")) "}}",
     NULL,
     {1 << 20},
     PL_POD_FAILED,
     "OOMKilled: the command needs more than 512Mi, the limit by which a patch or webhook replaced resources.memory",
     137},
    {"{" NODE ", \"status\": {" BOTH(ENDED("137", "OOMKilled", "")) "}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "OOMKilled: node n1 had no memory left, and the stage has no limit",
     137},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"DeadlineExceeded\", \"message\": \"Pod was active on the node "
     "longer than the "
     "specified deadline\"}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "DeadlineExceeded: Pod was active on the node longer",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"Pod ephemeral local storage usage "
     "exceeds the total limit of containers 1Gi. \", " BOTH(ENDED("137", "Error", "")) "}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi: the stage needs more disk: increase "
     "resources.disk",
     137},
    {"{" NODE ", \"status\": {\"phase\": \"Running\", \"conditions\": [{\"type\": \"DisruptionTarget\", \"status\": \"True\", "
     "\"reason\": \"TerminationByKubelet\", \"message\": \"Pod ephemeral local storage usage exceeds the total limit of "
     "containers 1Gi. \"}], " BOTH(ENDED("137", "Error", "")) "}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi: the stage needs more disk: increase "
     "resources.disk",
     137},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"Container main exceeded its local "
     "ephemeral storage limit \\\"1Gi\\\". \"}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "Evicted: Container main exceeded its local ephemeral storage limit \"1Gi\": the stage needs more disk: increase "
     "resources.disk",
     -1},
    {"{" NODE
     ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"Usage of EmptyDir volume \\\"tmp\\\" "
     "exceeds the limit \\\"1Gi\\\". \"}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "Evicted: Usage of EmptyDir volume \"tmp\" exceeds the limit \"1Gi\": the stage needs more disk: increase resources.disk",
     -1},
    {"{" NODE
     ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"Usage of EmptyDir volume \\\"shm\\\" "
     "exceeds the limit \\\"2Gi\\\". \"}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "Evicted: Usage of EmptyDir volume \"shm\" exceeds the limit \"2Gi\": the command needs more shared memory: increase "
     "resources.shm",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"The node was low on resource: "
     "ephemeral-storage. Container main was using 40Gi, request is 1Gi, has larger consumption of ephemeral-storage. \"}}",
     NULL,
     {0},
     PL_POD_FAILED,
     "Evicted: The node was low on resource: ephemeral-storage. Container main was using 40Gi, request is 1Gi, has larger "
     "consumption of ephemeral-storage: the stage needs more disk: increase resources.disk",
     -1},
    {"{" NODE
     ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"The node was low on resource: memory. "
     "Container main was using 8Gi, request is 1Gi, has larger consumption of memory. \"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "Evicted: The node was low on resource: memory. Container main was using 8Gi, request is 1Gi, has larger consumption of "
     "memory",
     -1},
    /* nobody's doing: again, elsewhere */
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"The node was low on resource: "
     "ephemeral-storage.\", " BOTH(ENDED("137", "Error", "")) "}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was preempted: Evicted: The node was low on resource: ephemeral-storage.",
     137},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"NodeLost\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was preempted: NodeLost: the cluster gives no details",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Preempting\", \"message\": \"m\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was preempted: Preempting: m",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Preempted\", \"message\": \"m\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was preempted: Preempted: m",
     -1},
    {"{" NODE
     ", \"status\": {\"phase\": \"Failed\", \"reason\": \"UnexpectedAdmissionError\", \"message\": \"Allocate failed\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "UnexpectedAdmissionError: Allocate failed",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"OutOfnvidia.com/gpu\", \"message\": \"Node didn't have enough "
     "resource\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "OutOfnvidia.com/gpu: Node didn't have enough resource",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"OutOfcpu\"}}", NULL, {0}, PL_POD_ELSEWHERE, "OutOfcpu: ", -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"NodeAffinity\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "NodeAffinity: ",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", \"reason\": \"Terminated\", \"message\": \"Pod was terminated in response "
     "to imminent node "
     "shutdown.\"}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was preempted: Terminated: Pod was terminated in response to imminent node shutdown.",
     -1},
    {"{" NODE
     ", \"status\": {\"phase\": \"Failed\", \"conditions\": [{\"type\": \"DisruptionTarget\", \"status\": \"True\", \"reason\": "
     "\"DeletionByTaintManager\", \"message\": \"Taint manager: deleting due to NoExecute taint\"}], " BOTH(
         ENDED("137", "Error", "")) "}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was preempted: DeletionByTaintManager: Taint manager: deleting due to NoExecute taint",
     137},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\", " BOTH(
         ENDED("137", "ContainerStatusUnknown", "The container could not be located")) "}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "its pod was preempted: ContainerStatusUnknown: The container could not be located",
     137},
    {"{" NODE ", \"status\": {" BOTH(ENDED("137", "Error", "")) "}}", NULL, {0}, PL_POD_ELSEWHERE, "main was killed", 137},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER(
         "main", ENDED("75", "Error", "the agent did not come")) ", " CONTAINER("agent", ENDED("0", "Completed", "")) "]}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "main ended with exit code 75: the agent did not come",
     75},
    /* without its agent a command comes to nothing */
    {"{" NODE ", \"status\": {\"phase\": \"Running\", \"containerStatuses\": [" CONTAINER(
         "main", "\"running\": {}") ", " CONTAINER("agent", ENDED("1", "Error", "attach: this is not a worker's token")) "]}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "agent ended with exit code 1: attach: this is not a worker's token",
     -1},
    /* killed with all of its pod, perhaps: the node says why once main has ended, too */
    {"{" NODE ", \"status\": {\"phase\": \"Running\", \"containerStatuses\": [" CONTAINER(
         "main", "\"running\": {}") ", " CONTAINER("agent", ENDED("137", "Error", "")) "]}}",
     NULL,
     {0},
     PL_POD_RUNS,
     "",
     -1},
    {"{" NODE ", \"status\": {\"phase\": \"Running\", \"containerStatuses\": [" CONTAINER(
         "main", "\"running\": {}") ", " CONTAINER("agent", ENDED("0", "Completed", "")) "]}}",
     NULL,
     {0},
     PL_POD_RUNS,
     "",
     -1},
    /* of two that ended because one did, that one tells; the end of what it printed */
    {"{" NODE
     ", \"status\": {\"containerStatuses\": [" CONTAINER("main", ENDED("75", "Error", "the agent did not come")) ", " CONTAINER(
         "agent",
         ENDED("1", "Error",
               "one line\\n{\\\"level\\\":\\\"error\\\",\\\"message\\\":\\\"attach: this is not a worker's token\\\"}\\n")) "]}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "agent ended with exit code 1: attach: this is not a worker's token",
     75},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER("main", ENDED("0", "Completed", "")) ", " CONTAINER(
         "agent", ENDED("75", "Error", "the daemon is away")) "]}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "agent ended with exit code 75: the daemon is away",
     0},
    {"{" NODE ", \"status\": {\"containerStatuses\": [" CONTAINER("main", ENDED("0", "Completed", "")) ", " CONTAINER(
         "agent", ENDED("137", "OOMKilled", "")) "]}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "agent ran out of memory: increase the daemon's setting",
     0},
    {"{" NODE ", \"status\": {\"phase\": \"Pending\", \"initContainerStatuses\": [" CONTAINER(
         "install", ENDED("1", "Error", "no space left")) "]}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "install ended with exit code 1: no space left",
     -1},
    {"{" NODE ", \"status\": {" BOTH(ENDED("128", "StartError", "failed to create containerd task: cgroup: busy")) "}}",
     NULL,
     {0},
     PL_POD_ELSEWHERE,
     "StartError of main: failed to create containerd task: cgroup: busy",
     128},
    {"{\"spec\": {\"nodeName\": \"n1\", \"initContainers\": [{\"name\": \"istio-proxy\", \"restartPolicy\": \"Always\"}]}, "
     "\"status\": {\"phase\": \"Pending\", \"initContainerStatuses\": [" CONTAINER("istio-proxy", ENDED("1", "Error", "")) "]}}",
     NULL,
     {0},
     PL_POD_WAITS,
     "node n1 is creating the pod's containers",
     -1},
    {"{\"spec\": {\"nodeName\": \"n1\", \"initContainers\": [{\"name\": \"istio-proxy\", \"restartPolicy\": \"Always\"}]}, "
     "\"status\": {\"phase\": \"Succeeded\", \"initContainerStatuses\": [" CONTAINER(
         "istio-proxy", ENDED("143", "Error", "")) "], " BOTH(ENDED("0", "Completed", "")) "}}",
     NULL,
     {0},
     PL_POD_OVER,
     "",
     0},
    {"{" NODE ", \"status\": {\"phase\": \"Failed\"}}", NULL, {0}, PL_POD_ELSEWHERE, "Failed: the cluster gives no details", -1},
    /* no other pod would do better */
    {"{" NODE ", \"status\": {" BOTH(ENDED("128", "StartError", "exec /pl/bin/pl-runner: exec format error")) "}}",
     NULL,
     {0},
     PL_POD_GIVEN_UP,
     "StartError of main: exec /pl/bin/pl-runner: exec format error: the image is for another architecture than node n1",
     128},
    {"{" NODE
     ", \"status\": {" BOTH(ENDED("127", "ContainerCannotRun", "stat /pl/bin/pl-runner: no such file or directory")) "}}",
     NULL,
     {0},
     PL_POD_GIVEN_UP,
     "ContainerCannotRun of main: stat /pl/bin/pl-runner: no such file or directory",
     127},
};

static void each_pod_has_a_verdict_and_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        json_t *pod = json_loads(cases[i].pod, 0, NULL),
               *events = cases[i].events != NULL ? json_loads(cases[i].events, 0, NULL) : NULL;
        struct pl_pod_state got;

        if (pod == NULL || (cases[i].events != NULL && events == NULL))
            fail_msg("%s\n%s", cases[i].pod, cases[i].events != NULL ? cases[i].events : "");
        pl_pod_state(pod, events, &cases[i].asked, &got);
        if (got.verdict != cases[i].verdict || strncmp(got.why, cases[i].why, strlen(cases[i].why)) != 0 ||
            (cases[i].why[0] == '\0' && got.why[0] != '\0'))
            fail_msg("%s\nis said to be %s: %s", cases[i].pod, pl_pod_verdict_name(got.verdict), got.why);
        assert_int_equal(got.exit_code, cases[i].exit_code);
        assert_int_equal(got.no_growth, cases[i].no_growth);
        assert_int_equal(got.bound, got.node != NULL);
        json_decref(pod);
        json_decref(events);
    }
}

/* Every reason that a kubelet, a scheduler or a controller gives: whose business it is. */
enum reason_of { WAITS_FOR, ENDED_BY, POD_ENDED_BY, DISRUPTED_BY };

static const struct {
    enum reason_of of;
    const char *reason;
    int code; /* ENDED_BY: of main */
    int64_t waited_ms;
    enum pl_pod_verdict verdict;
    bool disrupted;
} reasons[] = {
    /* of a container that waits: for ever, for a while, not at all */
    {WAITS_FOR, "ContainerCreating", .verdict = PL_POD_WAITS},
    {WAITS_FOR, "ContainerCreating", .waited_ms = INT64_MAX, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "PodInitializing", .waited_ms = INT64_MAX, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "CrashLoopBackOff", .waited_ms = INT64_MAX, .verdict = PL_POD_WAITS}, /* a patch had it started again */
    {WAITS_FOR, "SomethingNew", .waited_ms = INT64_MAX, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "ErrImagePull", .waited_ms = PL_POD_PULL_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "ErrImagePull", .waited_ms = PL_POD_PULL_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "ImagePullBackOff", .waited_ms = PL_POD_PULL_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "ImagePullBackOff", .waited_ms = PL_POD_PULL_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "ImageInspectError", .waited_ms = PL_POD_PULL_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "ImageInspectError", .waited_ms = PL_POD_PULL_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "RegistryUnavailable", .waited_ms = PL_POD_PULL_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "RegistryUnavailable", .waited_ms = PL_POD_PULL_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "CreateContainerConfigError", .waited_ms = PL_POD_CONFIG_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "CreateContainerConfigError", .waited_ms = PL_POD_CONFIG_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "CreateContainerError", .waited_ms = PL_POD_CONFIG_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "CreateContainerError", .waited_ms = PL_POD_CONFIG_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "PreCreateHookError", .waited_ms = PL_POD_CONFIG_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "PreCreateHookError", .waited_ms = PL_POD_CONFIG_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "RunContainerError", .waited_ms = PL_POD_CONFIG_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "RunContainerError", .waited_ms = PL_POD_CONFIG_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "PreStartHookError", .waited_ms = PL_POD_CONFIG_MS - 1, .verdict = PL_POD_WAITS},
    {WAITS_FOR, "PreStartHookError", .waited_ms = PL_POD_CONFIG_MS, .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "InvalidImageName", .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "ErrImageNeverPull", .verdict = PL_POD_GIVEN_UP},
    {WAITS_FOR, "SignatureValidationFailed", .verdict = PL_POD_GIVEN_UP},
    /* of one that ended */
    {ENDED_BY, "Completed", .verdict = PL_POD_OVER},
    {ENDED_BY, "Error", .code = 1, .verdict = PL_POD_ELSEWHERE},
    {ENDED_BY, "Error", .code = 137, .verdict = PL_POD_ELSEWHERE},
    {ENDED_BY, "Error", .code = 143, .verdict = PL_POD_ELSEWHERE},
    {ENDED_BY, "OOMKilled", .code = 137, .verdict = PL_POD_FAILED},
    {ENDED_BY, "DeadlineExceeded", .code = 137, .verdict = PL_POD_FAILED},
    {ENDED_BY, "StartError", .code = 128, .verdict = PL_POD_ELSEWHERE},
    {ENDED_BY, "ContainerCannotRun", .code = 127, .verdict = PL_POD_ELSEWHERE},
    {ENDED_BY, "ContainerStatusUnknown", .code = 137, .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    /* of the pod: its node would not have it, or would not keep it */
    {POD_ENDED_BY, "DeadlineExceeded", .verdict = PL_POD_FAILED},
    {POD_ENDED_BY, "Evicted", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {POD_ENDED_BY, "NodeLost", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {POD_ENDED_BY, "Preempted", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {POD_ENDED_BY, "Preempting", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {POD_ENDED_BY, "Shutdown", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {POD_ENDED_BY, "NodeShutdown", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "Terminated", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {POD_ENDED_BY, "UnexpectedAdmissionError", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "AdmissionErrorOfSomebody", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "TopologyAffinityError", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "NodeAffinity", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "NodeName", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "NodePorts", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "OutOfcpu", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "OutOfmemory", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "OutOfpods", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "OutOfephemeral-storage", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "OutOfnvidia.com/gpu", .verdict = PL_POD_ELSEWHERE},
    {POD_ENDED_BY, "SomethingNew", .verdict = PL_POD_ELSEWHERE},
    {DISRUPTED_BY, "PreemptionByScheduler", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {DISRUPTED_BY, "DeletionByTaintManager", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {DISRUPTED_BY, "EvictionByEvictionAPI", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {DISRUPTED_BY, "DeletionByPodGC", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
    {DISRUPTED_BY, "TerminationByKubelet", .verdict = PL_POD_ELSEWHERE, .disrupted = true},
};

static json_t *pod_with(enum reason_of of, const char *reason, int code)
{
    json_t *pod = json_loads("{" NODE ", \"status\": {" BOTH(ENDED("137", "Error", "")) "}}", 0, NULL),
           *status = json_object_get(pod, "status"), *main = json_array_get(json_object_get(status, "containerStatuses"), 0);

    if (of == WAITS_FOR)
        json_object_set_new(status, "containerStatuses",
                            json_pack("[{s:s, s:{s:{s:s}}}]", "name", "main", "state", "waiting", "reason", reason));
    else if (of == ENDED_BY)
        json_object_set_new(main, "state", json_pack("{s:{s:s, s:i}}", "terminated", "reason", reason, "exitCode", code));
    else if (of == POD_ENDED_BY)
        json_object_update_new(status, json_pack("{s:s, s:s, s:[]}", "phase", "Failed", "reason", reason, "containerStatuses"));
    else
        json_object_update_new(status, json_pack("{s:s, s:[{s:s, s:s, s:s}]}", "phase", "Failed", "conditions", "type",
                                                 "DisruptionTarget", "status", "True", "reason", reason));
    return pod;
}

static void each_reason_is_somebodys_business(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(reasons); i++) {
        json_t *pod = pod_with(reasons[i].of, reasons[i].reason, reasons[i].code);
        const struct pl_pod_asked asked = {.waited_ms = reasons[i].waited_ms};
        struct pl_pod_state got;

        pl_pod_state(pod, NULL, &asked, &got);
        if (got.verdict != reasons[i].verdict || (got.verdict != PL_POD_OVER && got.why[0] == '\0'))
            fail_msg("%s is said to be %s: %s", reasons[i].reason, pl_pod_verdict_name(got.verdict), got.why);
        if (got.disrupted != reasons[i].disrupted)
            fail_msg("%s is said %sto be the cluster's doing", reasons[i].reason, got.disrupted ? "" : "not ");
        json_decref(pod);
    }
}

static void a_queue_that_says_why_is_quoted(void **state)
{
    json_t *pod = json_loads(
        "{\"metadata\": {\"labels\": {\"kueue.x-k8s.io/queue-name\": \"team-a\"}}, \"spec\": {\"schedulingGates\": [{\"name\": "
        "\"kueue.x-k8s.io/admission\"}]}}",
        0, NULL);
    const struct pl_pod_asked asked = {.queue_says =
                                           "insufficient unused quota for nvidia.com/gpu in flavor a100, 1 more needed"};
    struct pl_pod_state got;

    (void)state;
    pl_pod_state(pod, NULL, &asked, &got);
    assert_true(got.queued);
    assert_string_equal(
        got.why,
        "queue team-a has not admitted the pod yet: insufficient unused quota for nvidia.com/gpu in flavor a100, 1 more needed");
    json_decref(pod);
}

static void a_pod_that_somebody_deletes_says_so(void **state)
{
    json_t *pod = json_loads("{\"metadata\": {\"deletionTimestamp\": \"2026-11-22T10:00:00Z\"}, " NODE
                             ", \"status\": {\"phase\": \"Running\", "
                             "\"containerStatuses\": [" CONTAINER("main", "\"running\": {}") "]}}",
                             0, NULL);
    const struct pl_pod_asked asked = {0};
    struct pl_pod_state got;

    (void)state;
    pl_pod_state(pod, NULL, &asked, &got);
    assert_int_equal(got.verdict, PL_POD_RUNS);
    assert_true(got.deleted);
    assert_string_equal(got.node, "n1");
    json_decref(pod);
}

/* What a server sends is foreign. */
static void pods_of_any_shape_have_a_verdict(void **state)
{
    static const char *const odd[] = {
        "[]", "{\"status\": 7, \"spec\": []}",
        "{\"status\": {\"containerStatuses\": {\"name\": \"main\"}, "
        "\"conditions\": [1, null], \"phase\": []}}",
        "{\"spec\": {\"nodeName\": 5, \"containers\": [null]}, \"status\": {\"containerStatuses\": [7, {\"name\": "
        "\"main\", \"state\": {\"terminated\": []}}], \"reason\": {}}}"};
    const struct pl_pod_asked asked = {0};
    json_t *events =
        json_loads("[null, 7, {\"reason\": 5}, {\"reason\": \"FailedScheduling\", \"lastTimestamp\": 7, \"message\": []}]", 0,
                   NULL);
    struct pl_pod_state got;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(odd); i++) {
        json_t *pod = json_loads(odd[i], 0, NULL);

        pl_pod_state(pod, events, &asked, &got);
        assert_non_null(pl_pod_verdict_name(got.verdict));
        json_decref(pod);
    }
    json_decref(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pod_has_a_verdict_and_a_sentence), cmocka_unit_test(each_reason_is_somebodys_business),
        cmocka_unit_test(a_queue_that_says_why_is_quoted),       cmocka_unit_test(a_pod_that_somebody_deletes_says_so),
        cmocka_unit_test(pods_of_any_shape_have_a_verdict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
