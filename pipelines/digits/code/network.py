"""A network with one hidden layer, trained with Adam: in numpy, or the same arithmetic in torch when that is there.

Arrays are float32: x (n, inputs), w1 (inputs, hidden), b1 (hidden,), w2 (hidden, classes), b2 (classes,).
"""
import numpy as np

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Kingma & Ba 2015
DECAY = 1e-4


def first_weights(rng, inputs, hidden, classes):
    """He's initialisation for the layer before the ReLU, Glorot's for the last."""
    return {
        "w1": (rng.standard_normal((inputs, hidden)) * np.sqrt(2 / inputs)).astype(np.float32),
        "b1": np.zeros(hidden, np.float32),
        "w2": (rng.standard_normal((hidden, classes)) * np.sqrt(2 / (hidden + classes))).astype(np.float32),
        "b2": np.zeros(classes, np.float32),
    }


def probabilities(weights, x):
    """-> float32 (n, classes), each row sums to 1."""
    scores = np.maximum(x @ weights["w1"] + weights["b1"], 0) @ weights["w2"] + weights["b2"]
    scores -= scores.max(axis=1, keepdims=True)
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


class NumpyNetwork:
    framework, device = "numpy", "cpu"

    def __init__(self, weights):
        self._weights = weights
        self._first = {name: np.zeros_like(value) for name, value in weights.items()}
        self._second = {name: np.zeros_like(value) for name, value in weights.items()}
        self._steps = 0

    def step(self, x, labels, rate):
        """One step of Adam on one mini-batch -> the mean cross entropy before it."""
        weights = self._weights
        hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0)
        shares = probabilities(weights, x)
        picked = shares[np.arange(len(labels)), labels]
        delta = shares
        delta[np.arange(len(labels)), labels] -= 1
        delta /= len(labels)
        back = (delta @ weights["w2"].T) * (hidden > 0)
        self._adam({"w1": x.T @ back, "b1": back.sum(axis=0), "w2": hidden.T @ delta, "b2": delta.sum(axis=0)}, rate)
        return float(-np.log(np.maximum(picked, 1e-12)).mean())

    def _adam(self, gradients, rate):
        self._steps += 1
        step_rate = np.float32(rate * np.sqrt(1 - BETA2**self._steps) / (1 - BETA1**self._steps))
        for name, gradient in gradients.items():
            weight, first, second = self._weights[name], self._first[name], self._second[name]
            first += np.float32(1 - BETA1) * (gradient - first)
            second += np.float32(1 - BETA2) * (gradient * gradient - second)
            weight -= step_rate * first / (np.sqrt(second) + np.float32(EPSILON)) + np.float32(rate * DECAY) * weight

    def weights(self):
        return self._weights


class TorchNetwork:
    framework = "torch"

    def __init__(self, torch, weights, device):
        self._torch = torch
        self.device = device
        self._weights = {name: torch.tensor(value, device=device, requires_grad=True) for name, value in weights.items()}
        self._adam = torch.optim.AdamW(self._weights.values(), betas=(BETA1, BETA2), eps=EPSILON, weight_decay=DECAY)

    def step(self, x, labels, rate):
        torch, weights = self._torch, self._weights
        for group in self._adam.param_groups:
            group["lr"] = rate
        inputs = torch.from_numpy(x).to(self.device)
        targets = torch.from_numpy(labels.astype(np.int64)).to(self.device)
        hidden = torch.relu(inputs @ weights["w1"] + weights["b1"])
        loss = torch.nn.functional.cross_entropy(hidden @ weights["w2"] + weights["b2"], targets)
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        return float(loss.detach())

    def weights(self):
        return {name: value.detach().cpu().numpy() for name, value in self._weights.items()}


def best_network(weights, want_gpu):
    """torch on the GPU or the CPU when it can be imported, else numpy."""
    try:
        import torch
    except ImportError:
        return NumpyNetwork(weights)
    torch.use_deterministic_algorithms(True)
    return TorchNetwork(torch, weights, "cuda" if want_gpu and torch.cuda.is_available() else "cpu")
