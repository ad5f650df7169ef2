"""GPT-2's training step as bench_gpt runs it: eager and by torch.compile. On a GPU."""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, units, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(units), nn.LayerNorm(units)
        self.qkv, self.out = nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.ffn_1, self.ffn_2 = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)

    def forward(self, x):
        batch, length, units = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, units // self.heads)
        seen = functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, units))
        return x + self.ffn_2(functional.gelu(self.ffn_1(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary=50304, length=1024, units=768, layers=12, heads=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, units), nn.Embedding(length, units)
        self.layers = nn.ModuleList(Layer(units, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(units)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--eager-only", action="store_true")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    tokens, labels = (torch.randint(0, 50257, (options.batch, 1024), device="cuda") for _ in range(2))
    for variant in ("eager",) if options.eager_only else ("eager", "compiled"):
        torch.manual_seed(0)
        torch.cuda.empty_cache()
        net = Gpt().cuda()
        run = torch.compile(net) if variant == "compiled" else net
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = run(tokens, labels)
            loss.backward()
            optimizer.step()

        for _ in range(5):
            step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(5):
                step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / 5)
        rate = options.batch * 1024 / statistics.median(times) / 1e3
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(f"gpt2-124m-b{options.batch} torch-{variant}: {rate:.1f} Ktokens/s, peak {peak:.2f} GiB", flush=True)
        del net, run, optimizer, step


if __name__ == "__main__":
    main()
