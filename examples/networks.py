#!/usr/bin/env python3
"""Prints a full-size network in gg's text form, with generated weights.

    python3 networks.py resnet50  > resnet50.gg
    python3 networks.py bert_base > bert_base.gg
    python3 networks.py densenet  > densenet.gg      (small: three blocks of six layers)
    python3 networks.py unet      > unet.gg          (small: three levels, bilinear upsampling)

The graphs are what PyTorch's exporter gives for them; the deviations are chosen so that
activations keep their size through all layers.
"""
import math
import sys

seed = 0


def tensor(kind, name, shape, data):
    print(f"{kind} %{name} : f32[{','.join(map(str, shape))}] = {data}")


def normal(name, shape, std, mean=0):
    global seed
    seed += 1
    tensor("param", name, shape, f"normal({seed}, {mean}, {std:.4g})")


def uniform(name, shape, lo, hi):
    global seed
    seed += 1
    tensor("param", name, shape, f"uniform({seed}, {lo:g}, {hi:g})")


# ---- ResNet-50 v1.5: the stride is in the 3x3 convolution -------------------------------------
def conv(name, x, cin, cout, k, stride=1):
    pad = k // 2
    normal(f"{name}.weight", [cout, cin, k, k], math.sqrt(2 / (cin * k * k)))
    print(f"%{name} = Conv(%{x}, %{name}.weight) {{dilations=[1, 1], group=1, kernel_shape=[{k}, {k}], "
          f"pads=[{pad}, {pad}, {pad}, {pad}], strides=[{stride}, {stride}]}}")
    return name


def bn(name, x, c, lo=0.8, hi=1.2):
    uniform(f"{name}.weight", [c], lo, hi)
    normal(f"{name}.bias", [c], 0.05)
    normal(f"{name}.running_mean", [c], 0.05)
    uniform(f"{name}.running_var", [c], 0.8, 1.2)
    print(f"%{name} = BatchNormalization(%{x}, %{name}.weight, %{name}.bias, %{name}.running_mean, "
          f"%{name}.running_var) {{epsilon=1e-05, momentum=0.9}}")
    return name


def op(text, name):
    print(f"%{name} = {text}")
    return name


def bottleneck(name, x, cin, width, stride):
    y = op(f"Relu(%{bn(f'{name}.bn1', conv(f'{name}.conv1', x, cin, width, 1), width)})", f"{name}.relu1")
    y = op(f"Relu(%{bn(f'{name}.bn2', conv(f'{name}.conv2', y, width, width, 3, stride), width)})", f"{name}.relu2")
    # A small last scale: sixteen sums would otherwise grow 256-fold.
    y = bn(f"{name}.bn3", conv(f"{name}.conv3", y, width, 4 * width, 1), 4 * width, 0.2, 0.4)
    if stride != 1 or cin != 4 * width:
        x = bn(f"{name}.downsample.1", conv(f"{name}.downsample.0", x, cin, 4 * width, 1, stride), 4 * width)
    return op(f"Relu(%{op(f'Add(%{y}, %{x})', f'{name}.sum')})", f"{name}.relu3")


def resnet50():
    print('graph "resnet50"')
    print("input %input : f32[N,3,224,224]")
    x = op(f"Relu(%{bn('bn1', conv('conv1', 'input', 3, 64, 7, 2), 64)})", "relu")
    x = op(f"MaxPool(%{x}) {{kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]}}", "maxpool")
    cin = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 1):
        for block in range(blocks):
            x = bottleneck(f"layer{stage}.{block}", x, cin, width, 2 if block == 0 and stage > 1 else 1)
            cin = 4 * width
    x = op(f"Flatten(%{op(f'GlobalAveragePool(%{x})', 'avgpool')}) {{axis=1}}", "flatten")
    normal("fc.weight", [1000, 2048], math.sqrt(1 / 2048))
    normal("fc.bias", [1000], 0.01)
    op(f"Gemm(%{x}, %fc.weight, %fc.bias) {{alpha=1, beta=1, transB=1}}", "output")
    print("output %output")


def densenet():
    print('graph "densenet"')
    print("input %input : f32[N,3,64,64]")
    c, x = 32, conv("conv0", "input", 3, 32, 3)
    for block in range(3):
        for layer in range(6):
            n = f"block{block}.{layer}"
            y = conv(f"{n}.conv1", op(f"Relu(%{bn(f'{n}.bn1', x, c)})", f"{n}.relu1"), c, 64, 1)
            y = conv(f"{n}.conv2", op(f"Relu(%{bn(f'{n}.bn2', y, 64)})", f"{n}.relu2"), 64, 16, 3)
            x, c = op(f"Concat(%{x}, %{y}) {{axis=1}}", f"{n}.cat"), c + 16
        if block < 2:
            n = f"transition{block}"
            x = conv(f"{n}.conv", op(f"Relu(%{bn(f'{n}.bn', x, c)})", f"{n}.relu"), c, c // 2, 1)
            x, c = op(f"AveragePool(%{x}) {{kernel_shape=[2, 2], strides=[2, 2]}}", f"{n}.pool"), c // 2
    x = op(f"GlobalAveragePool(%{op(f'Relu(%{x})', 'relu')})", "avgpool")
    op(f"Flatten(%{x}) {{axis=1}}", "output")
    print("output %output")


def unet():
    print('graph "unet"')
    print("input %input : f32[N,3,64,64]")
    print("const %scales : f32[4] = [1, 1, 2, 2]")

    def twice(n, x, cin, c):
        x = op(f"Relu(%{conv(f'{n}.conv1', x, cin, c, 3)})", f"{n}.relu1")
        return op(f"Relu(%{conv(f'{n}.conv2', x, c, c, 3)})", f"{n}.relu2")

    x, c, skips = "input", 3, []
    for width in 16, 32, 64:
        x, c = twice(f"down{width}", x, c, width), width
        skips.append((x, c))
        x = op(f"MaxPool(%{x}) {{kernel_shape=[2, 2], strides=[2, 2]}}", f"pool{width}")
    x, c = twice("middle", x, c, 128), 128
    for skip, width in reversed(skips):
        x = op(f'Resize(%{x}, _, %scales) {{mode="linear"}}', f"up{width}.resize")
        x = op(f"Concat(%{x}, %{skip}) {{axis=1}}", f"up{width}.cat")
        x, c = twice(f"up{width}", x, c + width, width), width
    op(f"Softmax(%{conv('classes', x, c, 2, 1)}) {{axis=1}}", "output")
    print("output %output")


# ---- BERT-base: 12 layers, hidden 768, 128 tokens ----------------------------------------------
HIDDEN, HEADS, TOKENS = 768, 12, 128


def linear(name, x, cin, cout):
    normal(f"{name}.weight", [cin, cout], 0.02)
    normal(f"{name}.bias", [cout], 0.02)
    op(f"MatMul(%{x}, %{name}.weight)", f"{name}.matmul")
    return op(f"Add(%{name}.bias, %{name}.matmul)", name)


def layer_norm(name, x):
    uniform(f"{name}.weight", [HIDDEN], 0.9, 1.1)
    normal(f"{name}.bias", [HIDDEN], 0.02)
    return op(f"LayerNormalization(%{x}, %{name}.weight, %{name}.bias) {{axis=-1, epsilon=1e-12}}", name)


def heads(name, x, perm):
    y = linear(name, x, HIDDEN, HIDDEN)
    op(f"Reshape(%{y}, %to_heads)", f"{name}.split")
    return op(f"Transpose(%{name}.split) {{perm={perm}}}", f"{name}.heads")


def attention(name, x):
    q = heads(f"{name}.self.query", x, [0, 2, 1, 3])
    k = heads(f"{name}.self.key", x, [0, 2, 3, 1])
    v = heads(f"{name}.self.value", x, [0, 2, 1, 3])
    op(f"MatMul(%{q}, %{k})", f"{name}.scores")
    op(f"Div(%{name}.scores, %sqrt_head)", f"{name}.scaled")
    op(f"Add(%{name}.scaled, %mask_bias)", f"{name}.masked")
    op(f"Softmax(%{name}.masked) {{axis=-1}}", f"{name}.weights")
    op(f"MatMul(%{name}.weights, %{v})", f"{name}.context")
    op(f"Transpose(%{name}.context) {{perm=[0, 2, 1, 3]}}", f"{name}.joined")
    op(f"Reshape(%{name}.joined, %from_heads)", f"{name}.flat")
    y = linear(f"{name}.output.dense", f"{name}.flat", HIDDEN, HIDDEN)
    return layer_norm(f"{name}.output.LayerNorm", op(f"Add(%{y}, %{x})", f"{name}.output.sum"))


def gelu(name, x):
    op(f"Div(%{x}, %sqrt_two)", f"{name}.div")
    op(f"Erf(%{name}.div)", f"{name}.erf")
    op(f"Add(%{name}.erf, %one)", f"{name}.add")
    op(f"Mul(%{x}, %{name}.add)", f"{name}.mul")
    return op(f"Mul(%{name}.mul, %half)", name)


def bert_base():
    print('graph "bert_base"')
    for name in "input_ids", "attention_mask", "token_type_ids":
        print(f"input %{name} : i64[N,{TOKENS}]")
    for name, value in ("one", 1), ("half", 0.5), ("sqrt_two", 1.4142135), ("sqrt_head", 8), ("zero", 0), \
            ("lowest", -3.4028235e38):
        print(f"const %{name} : f32[] = {value:.9g}")
    print("const %no : i64[] = 0\nconst %mask_axes : i64[2] = [1, 2]")
    print(f"const %to_heads : i64[4] = [0, 0, {HEADS}, {HIDDEN // HEADS}]\nconst %from_heads : i64[3] = [0, 0, {HIDDEN}]")
    print(f"const %position_ids : i64[1,{TOKENS}] = [{', '.join(map(str, range(TOKENS)))}]")
    op("Unsqueeze(%attention_mask, %mask_axes)", "mask")
    op("Equal(%mask, %no)", "mask.off")
    op("Where(%mask.off, %lowest, %zero)", "mask_bias")
    for name, rows, ids in ("word", 30522, "input_ids"), ("token_type", 2, "token_type_ids"), ("position", 512, "position_ids"):
        normal(f"embeddings.{name}.weight", [rows, HIDDEN], 0.02)
        op(f"Gather(%embeddings.{name}.weight, %{ids}) {{axis=0}}", f"embeddings.{name}")
    op("Add(%embeddings.word, %embeddings.token_type)", "embeddings.sum")
    op("Add(%embeddings.sum, %embeddings.position)", "embeddings.all")
    x = layer_norm("embeddings.LayerNorm", "embeddings.all")
    for i in range(12):
        x = attention(f"encoder.layer.{i}.attention", x)
        y = gelu(f"encoder.layer.{i}.gelu", linear(f"encoder.layer.{i}.intermediate.dense", x, HIDDEN, 4 * HIDDEN))
        y = linear(f"encoder.layer.{i}.output.dense", y, 4 * HIDDEN, HIDDEN)
        y = op(f"Add(%{y}, %{x})", f"encoder.layer.{i}.output.sum")
        x = layer_norm(f"encoder.layer.{i}.output.LayerNorm" if i < 11 else "last_hidden_state", y)
    op(f"Gather(%{x}, %no) {{axis=1}}", "pooler.first")
    normal("pooler.dense.weight", [HIDDEN, HIDDEN], 0.02)
    normal("pooler.dense.bias", [HIDDEN], 0.02)
    op("Gemm(%pooler.first, %pooler.dense.weight, %pooler.dense.bias) {alpha=1, beta=1, transB=1}", "pooler.dense")
    op("Tanh(%pooler.dense)", "pooler_output")
    print("output %last_hidden_state\noutput %pooler_output")


networks = {"resnet50": resnet50, "bert_base": bert_base, "densenet": densenet, "unet": unet}
if len(sys.argv) != 2 or sys.argv[1] not in networks:
    sys.exit(f"usage: networks.py {'|'.join(networks)}")
networks[sys.argv[1]]()
