"""Every gradient rule against central differences in f64. The rules are those of the op table, so that
one without a case fails. Prints TAP."""
import os, re, subprocess, sys, tempfile, zlib
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = subprocess.run([os.environ.get("GG_BUILD", "build") + "/tests/grads", "list"], check=True, stdout=subprocess.PIPE).stdout.decode().split()
H = 1e-4

# op: [(parameters, statements that make %r, bounds of values)]; constants and inputs may be among the statements
X = {"x": (3, 4)}
CASES = {
    "Abs": [(X, "%r = Abs(%x)")],
    "Add": [({"x": (3, 4), "y": (4,)}, "%r = Add(%x, %y)"), ({"x": (1, 4), "y": (3, 1)}, "%r = Add(%x, %y)"),
            (X, "%r = Add(%x, %x)"), ({"x": (), "y": (2, 1, 3)}, "%r = Add(%x, %y)")],
    "AddN": [({"x": (2, 3), "y": (2, 3)}, "%r = AddN(%x, %y, %x)")],
    # alone; tests/cli/world.bats has three ranks
    "AllGather": [({"x": (2, 3)}, "%h = AllGather(%x) {rank_size=1}\n%r = Mul(%h, %h)")],
    "AllReduce": [({"x": (2, 3), "y": (4,)}, "%h, %k = AllReduce(%x, %y)\n%s = ReduceSum(%k)\n%r = Mul(%h, %s)"),
                  (X, "%h = AllReduce(%x) {reduction=\"mean\"}\n%r = Mul(%h, %h)")],
    "AllToAll": [({"x": (2, 3)}, "%h = AllToAll(%x) {split_count=1, split_dim=0, concat_dim=1}\n%r = Mul(%h, %h)")],
    "AllToAllv": [({"x": (2, 3)}, "%h = AllToAllv(%x) {send_rank_ids=[0], recv_rank_ids=[0]}\n%r = Mul(%h, %h)"),
                  ({"x": (2, 3)}, "%h = AllToAllv(%x) {send_rank_ids=[0], recv_rank_ids=[0], recv_rows=[2]}\n%r = Mul(%h, %h)")],
    "Broadcast": [({"x": (2, 3), "y": ()}, "%h, %k = Broadcast(%x, %y) {rank_size=1}\n%r = Mul(%h, %k)")],
    "ReduceScatter": [({"x": (2, 3)}, "%h = ReduceScatter(%x) {reduction=\"mean\", rank_size=1}\n%r = Mul(%h, %h)")],
    "AveragePool": [({"x": (2, 3, 5, 6)}, "%r = AveragePool(%x) {kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]}"),
                    ({"x": (1, 2, 7)}, "%r = AveragePool(%x) {kernel_shape=[3], strides=[3], pads=[1,1], count_include_pad=1}"),
                    ({"x": (1, 2, 8)}, "%r = AveragePool(%x) {kernel_shape=[3], strides=[2], ceil_mode=1, dilations=[2]}"),
                    ({"x": (1, 1, 5, 4)}, "%r = AveragePool(%x) {kernel_shape=[2,3], auto_pad=\"SAME_LOWER\"}")],
    "BatchNormalization": [
        ({"x": (4, 3, 2, 2), "s": (3,), "b": (3,)},
         "const %m : f64[3] = zeros\nconst %v : f64[3] = ones\n"
         "%r, %rm, %rv = BatchNormalization(%x, %s, %b, %m, %v) {training_mode=1, epsilon=0.01}"),
        ({"x": (4, 3), "s": (3,), "b": (3,)},
         "const %m : f64[3] = [0.1, 0.2, 0.3]\nconst %v : f64[3] = [1, 2, 3]\n"
         "%r = BatchNormalization(%x, %s, %b, %m, %v)")],
    "Cast": [(X, "%h = Cast(%x) {to=f64}\n%r = Mul(%h, %h)")],
    "Conv": [({"x": (2, 3, 7, 6), "w": (4, 3, 3, 2), "b": (4,)},
              "%r = Conv(%x, %w, %b) {strides=[2,1], pads=[1,0,2,1]}"),
             ({"x": (2, 2, 9), "w": (3, 2, 2)}, "%r = Conv(%x, %w) {strides=[3], dilations=[2], pads=[1,1]}"),
             ({"x": (1, 1, 3, 3), "w": (1, 1, 3, 3)}, "%r = Conv(%x, %w)"),
             ({"x": (2, 4, 5, 4), "w": (4, 1, 3, 3)}, "%r = Conv(%x, %w) {group=4, pads=[1,1,1,1]}"),
             ({"x": (2, 4, 7), "w": (6, 2, 3)}, "%r = Conv(%x, %w) {group=2, strides=[2]}"),
             ({"x": (1, 2, 3, 4, 3), "w": (2, 2, 2, 2, 2)}, "%r = Conv(%x, %w) {auto_pad=\"SAME_UPPER\", strides=[2,1,1]}"),
             ({"x": (2, 2, 5), "w": (2, 2, 3)}, "%r = Conv(%x, %w) {pads=[-1,2]}")],
    "ConvInputGrad": [({"x": (2, 4, 4, 5), "w": (4, 3, 3, 2)},
                       "const %s : i64[4] = [2, 3, 7, 6]\n%r = ConvInputGrad(%x, %w, %s) {strides=[2,1], pads=[1,0,2,0]}"),
                      ({"x": (2, 6, 3), "w": (6, 2, 3)},
                       "const %s : i64[3] = [2, 4, 8]\n%r = ConvInputGrad(%x, %w, %s) {group=2, strides=[2]}")],
    "ConvWeightGrad": [({"x": (2, 4, 4, 5), "w": (2, 3, 7, 6)},
                        "const %s : i64[4] = [4, 3, 3, 2]\n%r = ConvWeightGrad(%x, %w, %s) {strides=[2,1], pads=[1,0,2,0]}"),
                       ({"x": (2, 6, 3), "w": (2, 4, 8)},
                        "const %s : i64[3] = [6, 2, 3]\n%r = ConvWeightGrad(%x, %w, %s) {group=2, strides=[2]}")],
    "Clip": [(X, "const %lo : f64[] = -0.5\nconst %hi : f64[] = 0.6\n%r = Clip(%x, %lo, %hi)"),
             ({"x": (4, 5), "lo": (), "hi": ()}, "const %one : f64[] = 0.7\n%h = Add(%hi, %one)\n%l = Sub(%lo, %one)\n"
              "const %three : f64[] = 3\n%b = Mul(%x, %three)\n%r = Clip(%b, %l, %h)", (-0.3, 0.3)),
             ({"x": (4, 5), "lo": ()}, "%r = Clip(%x, %lo)")],
    "Concat": [({"x": (2, 3), "y": (2, 1)}, "%c = Concat(%x, %y, %x) {axis=-1}\n%r = Mul(%c, %c)")],
    "Cos": [(X, "%r = Cos(%x)")],
    "Erf": [(X, "%r = Erf(%x)")],
    "Expand": [({"x": (3, 1)}, "const %s : i64[3] = [2, 1, 4]\n%r = Expand(%x, %s)")],
    "Gather": [({"x": (4, 3)}, "const %i : i64[2,3] = [0, 2, 2, -1, 0, 3]\n%h = Gather(%x, %i)\n%r = Mul(%h, %h)"),
               ({"x": (2, 3, 4)}, "const %i : i64[2] = [2, 0]\n%h = Gather(%x, %i) {axis=1}\n%r = Mul(%h, %h)"),
               ({"x": (2, 3, 4)}, "const %i : i32[] = 1\n%h = Gather(%x, %i) {axis=-1}\n%r = Mul(%h, %h)")],
    "HardSigmoid": [({"x": (3, 4)}, "%r = HardSigmoid(%x) {alpha=0.7}", (-2, 2))],
    "HardSwish": [({"x": (3, 4)}, "%r = HardSwish(%x)", (-4, 4))],
    "InstanceNormalization": [({"x": (2, 3, 4, 2), "s": (3,), "b": (3,)}, "%r = InstanceNormalization(%x, %s, %b)")],
    "Gelu": [(X, "%r = Gelu(%x)"), (X, "%r = Gelu(%x) {approximate=\"tanh\"}")],
    "LayerNormalization": [({"x": (3, 5), "s": (5,), "b": (5,)}, "%r = LayerNormalization(%x, %s, %b)"),
                           ({"x": (2, 3, 4), "s": (3, 4)}, "%r = LayerNormalization(%x, %s) {axis=1, epsilon=0.1}"),
                           ({"x": (2, 3, 4), "s": (3, 1), "b": (4,)}, "%r = LayerNormalization(%x, %s, %b) {axis=-2}"),
                           ({"x": (3, 5), "s": (5,)}, "%h, %m, %i = LayerNormalization(%x, %s) {stash_type=11}\n%n = Mul(%m, %i)\n%r = Mul(%h, %n)"),
                           ({"x": (2, 3, 2)}, "const %s : f64[2] = ones\n%h, %m, %r = LayerNormalization(%x, %s) {axis=1, stash_type=11}")],
    "Pad": [({"x": (2, 3)}, "const %p : i64[4] = [1, 0, 2, 1]\n%h = Pad(%x, %p)\n%r = Mul(%h, %h)")],
    "Pow": [(X, "const %e : f64[] = 3\n%r = Pow(%x, %e)"), ({"x": (3, 2), "y": (2,)}, "%r = Pow(%x, %y)", (1, 2))],
    "Reciprocal": [(X, "%r = Reciprocal(%x)", (1, 2))],
    "Sin": [(X, "%r = Sin(%x)")],
    "Slice": [({"x": (4, 5)}, "const %a : i64[2] = [1, -3]\nconst %b : i64[2] = [3, 9]\n%h = Slice(%x, %a, %b)\n%r = Mul(%h, %h)"),
              ({"x": (4, 5)}, "const %a : i64[1] = [1]\nconst %b : i64[1] = [-1]\nconst %k : i64[1] = [1]\n%r = Slice(%x, %a, %b, %k)"),
              ({"x": (7, 5)}, "const %a : i64[2] = [1, -1]\nconst %b : i64[2] = [9, -9]\nconst %k : i64[2] = [0, 1]\nconst %t : i64[2] = [2, -2]\n"
               "%h = Slice(%x, %a, %b, %k, %t)\n%r = Mul(%h, %h)"),
              ({"x": (6, 2)}, "const %a : i64[2] = [-4, 1]\nconst %b : i64[2] = [6, 2]\nconst %k : i64[2] = [-2, 1]\nconst %t : i64[2] = [3, 1]\n"
               "%r = Slice(%x, %a, %b, %k, %t)")],
    "Split": [({"x": (4, 3)}, "const %s : i64[3] = [1, 2, 1]\n%p, %q, %u = Split(%x, %s)\n%m = Mul(%p, %u)\n%r = Add(%m, %q)"),
              ({"x": (3, 4)}, "%p, %q = Split(%x) {axis=1, num_outputs=2}\n%r = Mul(%q, %q)")],
    "Swish": [(X, "%r = Swish(%x) {alpha=1.5}")],
    "Where": [({"x": (3, 4), "y": (4,)}, "const %c : bool[3,1] = [true, false, true]\n%r = Where(%c, %x, %y)")],
    "Div": [({"x": (3, 4), "y": (3, 1)}, "%r = Div(%x, %y)", (1, 2))],
    "Dropout": [(X, "const %p : f64[] = 0.5\nconst %t : bool[] = true\n%r, %k = Dropout(%x, %p, %t) {seed=3}"),
                (X, "%r = Dropout(%x)")],
    "Exp": [(X, "%r = Exp(%x)")],
    "Flatten": [({"x": (2, 3, 2)}, "%f = Flatten(%x)\n%r = Mul(%f, %f)")],
    "Gemm": [({"x": (3, 4), "w": (4, 2), "b": (2,)}, "%r = Gemm(%x, %w, %b) {alpha=0.5, beta=2.0}"),
             ({"x": (4, 3), "w": (2, 4), "b": (3, 1)}, "%r = Gemm(%x, %w, %b) {transA=1, transB=1}"),
             ({"x": (4, 3), "w": (4, 2)}, "%r = Gemm(%x, %w) {transA=1}")],
    "GlobalAveragePool": [({"x": (2, 3, 2, 3)}, "%r = GlobalAveragePool(%x)")],
    "Identity": [(X, "%i = Identity(%x)\n%r = Mul(%i, %x)")],
    "LeakyRelu": [(X, "%r = LeakyRelu(%x) {alpha=0.2}")],
    "Log": [(X, "%r = Log(%x)", (1, 2))],
    "LogSoftmax": [(X, "%r = LogSoftmax(%x)"), ({"x": (2, 3, 2)}, "%r = LogSoftmax(%x) {axis=1}")],
    "MatMul": [({"x": (3, 4), "w": (4, 2)}, "%r = MatMul(%x, %w)"),
               ({"x": (2, 3, 4), "w": (4, 2)}, "%r = MatMul(%x, %w)"),
               ({"x": (3, 4), "w": (2, 1, 4, 2)}, "%r = MatMul(%x, %w)"),
               ({"x": (3, 3)}, "%r = MatMul(%x, %x)"),
               ({"x": (4,), "w": (2, 4, 3)}, "%r = MatMul(%x, %w)"), ({"x": (2, 3, 4), "w": (4,)}, "%r = MatMul(%x, %w)"),
               ({"x": (4,), "w": (4,)}, "%r = MatMul(%x, %w)")],
    "MaxPool": [({"x": (1, 2, 8)}, "%r = MaxPool(%x) {kernel_shape=[3], strides=[2], ceil_mode=1}"),
                ({"x": (1, 1, 3, 4, 3)}, "%r = MaxPool(%x) {kernel_shape=[2,2,2], dilations=[1,2,1], auto_pad=\"SAME_UPPER\"}"),
                ({"x": (2, 2, 5, 4)}, "%r = MaxPool(%x) {kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]}")],
    "Mul": [({"x": (3, 4), "y": (4,)}, "%r = Mul(%x, %y)"), (X, "%r = Mul(%x, %x)")],
    "Neg": [(X, "%r = Neg(%x)")],
    "NegativeLogLikelihoodLoss": [
        (X, "const %l : i64[3] = [1, 3, 0]\n%r = NegativeLogLikelihoodLoss(%x, %l)"),
        (X, "const %w : f64[4] = [0.5, 2, 1, 0.1]\nconst %l : i64[3] = [1, 3, 0]\n%r = NegativeLogLikelihoodLoss(%x, %l, %w)"),
        (X, "const %w : f64[4] = [0.5, 2, 1, 0.1]\nconst %l : i64[3] = [1, -1, 0]\n"
            "%r = NegativeLogLikelihoodLoss(%x, %l, %w) {reduction=\"sum\", ignore_index=-1}"),
        (X, "const %l : i64[3] = [1, 3, 0]\n%r = NegativeLogLikelihoodLoss(%x, %l) {reduction=\"none\"}")],
    "ReduceMean": [(X, "const %a : i64[1] = [1]\n%r = ReduceMean(%x, %a)"), (X, "%r = ReduceMean(%x) {keepdims=0}"),
                   ({"x": (2, 3, 4)}, "const %a : i64[2] = [0, -1]\n%r = ReduceMean(%x, %a) {keepdims=0}")],
    "ReduceSum": [(X, "const %a : i64[1] = [0]\n%r = ReduceSum(%x, %a) {keepdims=0}"), (X, "%r = ReduceSum(%x)")],
    "Relu": [(X, "%r = Relu(%x)")],
    "ReluGrad": [(X, "const %y : f64[4] = [1, -1, 0, 2]\n%r = ReluGrad(%x, %y)")],
    "Reshape": [(X, "const %s : i64[2] = [2, -1]\n%h = Reshape(%x, %s)\n%r = Mul(%h, %h)")],
    "Sigmoid": [(X, "%r = Sigmoid(%x)")],
    "Softmax": [(X, "%r = Softmax(%x)"), ({"x": (2, 3, 2)}, "%r = Softmax(%x) {axis=0}")],
    "SoftmaxCrossEntropyLoss": [
        (X, "const %l : i64[3] = [1, 3, 0]\n%r = SoftmaxCrossEntropyLoss(%x, %l)"),
        (X, "const %l : i64[3] = [1, 9, 0]\n%r = SoftmaxCrossEntropyLoss(%x, %l) {ignore_index=9}"),
        ({"x": (2, 3, 2)}, "const %l : i32[2,2] = [1, 2, 0, 0]\n"
                           "%r = SoftmaxCrossEntropyLoss(%x, %l) {reduction=\"sum\", ignore_index=2}"),
        (X, "const %w : f64[4] = [0.5, 2, 1, 0.1]\nconst %l : i64[3] = [1, 9, 0]\n%r = SoftmaxCrossEntropyLoss(%x, %l, %w) {ignore_index=9}"),
        (X, "const %l : i64[3] = [1, 3, 0]\n%h, %g = SoftmaxCrossEntropyLoss(%x, %l)\n%e = Mul(%g, %g)\n%r = Add(%e, %h)"),
        (X, "const %l : i64[3] = [1, 3, 0]\n%h, %r = SoftmaxCrossEntropyLoss(%x, %l)"),
        (X, "const %l : i64[3] = [1, 3, 0]\n%r = SoftmaxCrossEntropyLoss(%x, %l) {reduction=\"none\"}")],
    "Softplus": [(X, "%r = Softplus(%x)")],
    "Sqrt": [(X, "%r = Sqrt(%x)", (1, 2))],
    "Squeeze": [({"x": (3, 1, 2)}, "const %a : i64[1] = [1]\n%h = Squeeze(%x, %a)\n%r = Mul(%h, %h)")],
    "Sub": [({"x": (3, 1), "y": (2, 1, 4)}, "%r = Sub(%x, %y)")],
    "Sum": [({"x": (3, 4), "y": (4,)}, "%r = Sum(%x, %y, %y)")],
    "Tanh": [(X, "%r = Tanh(%x)")],
    "Transpose": [({"x": (2, 3, 4)}, "%h = Transpose(%x) {perm=[2,0,1]}\n%r = Mul(%h, %h)"),
                  (X, "%h = Transpose(%x)\n%r = Mul(%h, %h)")],
    # constant nearly everywhere, or chance: nothing comes back through them
    "Bernoulli": [(X, "%h = Bernoulli(%x) {seed=1.0}\n%c = Mul(%h, %h)\n%r = Add(%c, %x)", (0.1, 0.9))],
    "Ceil": [(X, "%h = Ceil(%x)\n%r = Add(%h, %x)")],
    "EyeLike": [(X, "%h = EyeLike(%x)\n%r = Add(%h, %x)")],
    "Floor": [(X, "%h = Floor(%x)\n%r = Add(%h, %x)")],
    "Hardmax": [(X, "%h = Hardmax(%x)\n%r = Add(%h, %x)")],
    "RandomNormalLike": [(X, "%h = RandomNormalLike(%x) {seed=1.0}\n%r = Add(%h, %x)")],
    "RandomUniformLike": [(X, "%h = RandomUniformLike(%x) {seed=1.0}\n%r = Add(%h, %x)")],
    "Round": [(X, "%h = Round(%x)\n%r = Add(%h, %x)")],
    "Sign": [(X, "%h = Sign(%x)\n%r = Add(%h, %x)")],
    "Acos": [(X, "%r = Acos(%x)", (-0.9, 0.9))],
    "Acosh": [(X, "%r = Acosh(%x)", (1.2, 3))],
    "Asin": [(X, "%r = Asin(%x)", (-0.9, 0.9))],
    "Asinh": [(X, "%r = Asinh(%x)", (-3, 3))],
    "Atan": [(X, "%r = Atan(%x)", (-3, 3))],
    "Atanh": [(X, "%r = Atanh(%x)", (-0.9, 0.9))],
    "CastLike": [(X, "const %t : f64[] = 0\n%h = CastLike(%x, %t)\n%r = Mul(%h, %h)")],
    "Celu": [(X, "%r = Celu(%x) {alpha=1.5}")],
    "Compress": [({"x": (3, 4)}, "const %c : bool[3] = [true, false, true]\n%h = Compress(%x, %c) {axis=1}\n%r = ReduceSumSquare(%h)"),
                 ({"x": (2, 3)}, "const %c : bool[6] = [false, true, true, false, false, true]\n%h = Compress(%x, %c)\n%r = ReduceSumSquare(%h)"),
                 ({"x": (3, 2)}, "const %c : bool[3] = [true, false, true]\n%h = Compress(%x, %c) {axis=-2}\n%r = ReduceSumSquare(%h)")],
    "ConvTranspose": [({"x": (2, 4, 3, 2), "w": (4, 3, 3, 2), "b": (3,)},
                       "%r = ConvTranspose(%x, %w, %b) {strides=[2,1], pads=[1,0,0,1], output_padding=[1,0]}"),
                      ({"x": (1, 4, 5), "w": (4, 2, 3)}, "%r = ConvTranspose(%x, %w) {group=2, dilations=[2], strides=[3]}")],
    "Cosh": [(X, "%r = Cosh(%x)")],
    "CumProd": [(X, "const %a : i64[] = 1\n%r = CumProd(%x, %a)"),
                ({"x": (2, 5)}, "const %z : f64[5] = [1, 1, 0, 1, 0]\nconst %a : i64[] = 1\n%h = Mul(%x, %z)\n%r = CumProd(%h, %a)"),
                ({"x": (5, 2)}, "const %z : f64[5,1] = [1, 1, 0, 1, 1]\nconst %a : i64[] = 0\n%h = Mul(%x, %z)\n"
                                "%r = CumProd(%h, %a) {exclusive=1, reverse=1}")],
    "CumSum": [(X, "const %a : i64[] = 1\n%h = CumSum(%x, %a)\n%r = Mul(%h, %h)"),
               (X, "const %a : i64[] = 0\n%r = CumSum(%x, %a) {exclusive=1, reverse=1}"),
               (X, "const %a : i64[] = -1\n%r = CumSum(%x, %a) {reverse=1}")],
    "Depend": [(X, "%d = Exp(%x)\n%r = Depend(%x, %d)")],
    "DepthToSpace": [({"x": (2, 8, 1, 3)}, "%h = DepthToSpace(%x) {blocksize=2}\n%r = Mul(%h, %h)"),
                     ({"x": (1, 12, 2, 1)}, "%h = DepthToSpace(%x) {blocksize=2, mode=\"CRD\"}\n%r = Mul(%h, %h)")],
    "Einsum": [({"x": (2, 3), "y": (3, 4)}, "%r = Einsum(%x, %y) {equation=\"ab,bc->ca\"}"),
               ({"x": (2, 3, 4)}, "%h = Einsum(%x) {equation=\"abc->b\"}\n%r = Mul(%h, %h)"),
               ({"x": (2, 3, 4), "y": (4, 2), "z": (3,)}, "%r = Einsum(%x, %y, %z) {equation=\"abc,ca,b\"}"),
               ({"x": (4, 2, 3), "y": (1, 3, 2)}, "%r = Einsum(%x, %y) {equation=\"...ij,...jk->...ik\"}"),
               ({"x": (3, 3)}, "%r = Einsum(%x, %x) {equation=\"ij,jk->ik\"}")],
    "Elu": [(X, "%r = Elu(%x) {alpha=0.7}")],
    "GRU": [({"x": (3, 1, 2), "w": (1, 6, 2), "u": (1, 6, 2)}, "%r = GRU(%x, %w, %u) {clip=0.5}"), ({"x": (3, 2, 3), "w": (1, 6, 3), "u": (1, 6, 2), "b": (1, 12)}, "%r1, %h = GRU(%x, %w, %u, %b)\n%r2 = ReduceSum(%h)\n%r = Add(%r1, %r2)"),
            ({"x": (3, 1, 2), "w": (2, 6, 2), "u": (2, 6, 2), "b": (2, 12), "h": (2, 1, 2)},
             "%r = GRU(%x, %w, %u, %b, _, %h) {direction=\"bidirectional\", linear_before_reset=1}"),
            ({"x": (3, 3, 2), "w": (2, 6, 2), "u": (2, 6, 2), "h": (2, 3, 2)}, "const %l : i32[3] = [3, 1, 0]\n"
             "%y, %z = GRU(%x, %w, %u, _, %l, %h) {direction=\"bidirectional\"}\n%s = ReduceSum(%z)\n%r = Mul(%y, %s)"),
            ({"x": (2, 3, 2), "w": (1, 6, 2), "u": (1, 6, 2), "h": (2, 1, 2)}, "const %l : i32[2] = [2, 3]\n"
             "%r = GRU(%x, %w, %u, _, %l, %h) {layout=1, activations=[\"Softsign\", \"elu\"], activation_alpha=[0.7]}")],
    "LSTM": [({"x": (3, 2, 2), "w": (2, 8, 2), "u": (2, 8, 2), "h": (2, 2, 2), "c": (2, 2, 2), "p": (2, 6)},
              "%r = LSTM(%x, %w, %u, _, _, %h, %c, %p) {direction=\"bidirectional\"}"),
             ({"x": (3, 2, 2), "w": (1, 8, 2), "u": (1, 8, 2), "b": (1, 16), "p": (1, 6)},
              "%y, %h, %r = LSTM(%x, %w, %u, %b, _, _, _, %p) {input_forget=1, clip=0.6}"),
             ({"x": (3, 2, 3), "w": (1, 8, 3), "u": (1, 8, 2), "b": (1, 16)}, "%y, %h, %c = LSTM(%x, %w, %u, %b)\n%m = Mul(%h, %c)\n%r = Add(%y, %m)"),
             ({"x": (4, 1, 2), "w": (2, 8, 2), "u": (2, 8, 2), "h": (2, 1, 2), "c": (2, 1, 2)},
              "%r = LSTM(%x, %w, %u, _, _, %h, %c) {direction=\"bidirectional\"}"),
             ({"x": (2, 2, 2), "w": (1, 8, 2), "u": (1, 8, 2), "b": (1, 16)},
              "%y, %h, %r = LSTM(%x, %w, %u, %b) {direction=\"reverse\", input_forget=1}"),
             ({"x": (4, 3, 2), "w": (1, 8, 2), "u": (1, 8, 2), "c": (1, 3, 2), "p": (1, 6)}, "const %l : i32[3] = [2, 4, 1]\n"
              "%y, %h, %c1 = LSTM(%x, %w, %u, _, %l, _, %c, %p) {direction=\"reverse\"}\n%m = Mul(%h, %c1)\n%r = Add(%y, %m)"),
             ({"x": (3, 2, 2), "w": (2, 8, 2), "u": (2, 8, 2), "h": (3, 2, 2), "c": (3, 2, 2)}, "const %l : i32[3] = [0, 2, 1]\n"
              "%y, %r, %d = LSTM(%x, %w, %u, _, %l, %h, %c) {direction=\"bidirectional\", layout=1,"
              " activations=[\"HardSigmoid\", \"ScaledTanh\", \"Affine\", \"Sigmoid\", \"LeakyRelu\", \"Softplus\"],"
              " activation_alpha=[0.3, 1.5, 0.8, 0.1], activation_beta=[0.4, 0.7, -0.2]}")],
    "RNN": [({"x": (3, 2, 3), "w": (1, 2, 3), "u": (1, 2, 2)}, "%r = RNN(%x, %w, %u) {clip=0.4}"), ({"x": (3, 2, 3), "w": (1, 2, 3), "u": (1, 2, 2), "b": (1, 4)}, "%r, %h = RNN(%x, %w, %u, %b) {activations=[\"Tanh\"]}"),
            ({"x": (3, 2, 1), "w": (1, 2, 1), "u": (1, 2, 2)}, "%y, %r = RNN(%x, %w, %u) {direction=\"reverse\"}"),
            ({"x": (3, 2, 2), "w": (1, 2, 2), "u": (1, 2, 2), "b": (1, 4)}, "const %l : i32[2] = [1, 3]\n%y, %h = RNN(%x, %w, %u, %b, %l)\n"
             "%s = ReduceSum(%h)\n%r = Mul(%y, %s)"),
            ({"x": (3, 1, 2), "w": (1, 2, 2), "u": (1, 2, 2)}, "%r = RNN(%x, %w, %u) {activations=[\"ThresholdedRelu\"], activation_alpha=[0.1]}")],
    "GatherElements": [({"x": (4, 3)}, "const %i : i64[2,3] = [0, 2, -1, 0, 3, 1]\n%h = GatherElements(%x, %i)\n%r = Mul(%h, %h)"),
                       ({"x": (2, 4)}, "const %i : i32[2,3] = [0, 2, 2, 0, 3, 1]\n%h = GatherElements(%x, %i) {axis=-1}\n%r = Mul(%h, %h)")],
    "GatherND": [({"x": (3, 4)}, "const %i : i64[3,2] = [0, 1, 2, 3, 0, 1]\n%h = GatherND(%x, %i)\n%r = Mul(%h, %h)"),
                 ({"x": (3, 2, 2)}, "const %i : i64[2,1,1] = [2, 0]\n%h = GatherND(%x, %i)\n%r = Mul(%h, %h)"),
                 ({"x": (2, 3, 4)}, "const %i : i64[2,2,1] = [1, -1, 1, 1]\n%h = GatherND(%x, %i) {batch_dims=1}\n%r = Mul(%h, %h)"),
                 ({"x": (2, 3, 2, 3)}, "const %i : i64[2,3,2] = [0, 1, 1, 2, -2, 0, 1, 1, 0, 0, 1, -1]\n"
                                       "%h = GatherND(%x, %i) {batch_dims=2}\n%r = Mul(%h, %h)"),
                 ({"x": (3, 2), "y": (3, 1)}, "const %i : i64[3,1] = [1, 0, 1]\n%g = GatherND(%x, %i) {batch_dims=1}\n"
                                              "%h = GatherND(%y, %i) {batch_dims=0}\n%t = Squeeze(%h)\n%r = Mul(%g, %t)")],
    "GlobalLpPool": [({"x": (2, 3, 2, 3)}, "%r = GlobalLpPool(%x) {p=3}"), ({"x": (1, 2, 5)}, "%r = GlobalLpPool(%x)")],
    "GlobalMaxPool": [({"x": (2, 3, 2, 3)}, "%r = GlobalMaxPool(%x)"), ({"x": (1, 1, 1)}, "%r = GlobalMaxPool(%x)")],
    "GridSample": [({"x": (2, 2, 3, 4), "g": (2, 3, 2, 2)}, "%r = GridSample(%x, %g)", (-1.2, 1.2))] + [
        ({"x": (1, 2, 4, 3), "g": (1, 3, 3, 2)},
         f'%r = GridSample(%x, %g) {{mode="{m}", padding_mode="{p}", align_corners={a}}}', (-1.8, 1.8))
        for m in ("nearest", "linear", "cubic") for p in ("zeros", "border", "reflection") for a in (0, 1)] + [
        ({"x": (2, 1, 3, 2, 4), "g": (2, 2, 1, 3, 3)}, f'%r = GridSample(%x, %g) {{padding_mode="{p}"}}', (-1.4, 1.4))
        for p in ("zeros", "border", "reflection")] + [
        ({"x": (1, 3, 5), "g": (1, 4, 1)}, "%r = GridSample(%x, %g) {align_corners=1}"),
        ({"x": (1, 1, 1, 1), "g": (1, 2, 1, 2)}, 'const %t : f64[] = 3\n%h = Mul(%g, %t)\n%r = GridSample(%x, %h) {padding_mode="reflection"}'),
        ({"x": (1, 2, 3, 3)}, "const %g : f32[1,2,1,2] = [0.1, -0.7, 0.4, 1.1]\n%r = GridSample(%x, %g)"),
        ({"g": (1, 2, 2, 2)}, "const %x : f64[1,1,2,3] = [1, -2, 3, 0.5, 4, 0]\n%r = GridSample(%x, %g)"),
        ({"x": (1, 1, 3, 3), "g": (1, 2, 2, 2)}, "%f = Sin(%x)\n%h = Mul(%f, %f)\n%a = GridSample(%h, %g)\n"
         "%b = GridSample(%x, %g)\n%r = Mul(%a, %b)")],
    "GridSampleGrad": [({"d": (1, 2, 2, 3), "g": (1, 2, 3, 2)}, "const %x : f64[1,2,3,4] = zeros\n%r = GridSampleGrad(%d, %x, %g)"),
                       ({"d": (1, 1, 3, 1), "x": (1, 1, 2, 3), "g": (1, 3, 1, 2)},
                        '%h = GridSampleGrad(%d, %x, %g) {mode="cubic", padding_mode="border"}\n%r = Mul(%h, %x)'),
                       ({"d": (1, 2, 2), "x": (1, 2, 3), "g": (1, 2, 1)},
                        '%h = GridSampleGrad(%d, %x, %g) {padding_mode="reflection", align_corners=1}\n%r = Mul(%h, %x)')],
    "GroupNormalization": [({"x": (2, 4, 3, 2), "s": (4,), "b": (4,)}, "%r = GroupNormalization(%x, %s, %b) {num_groups=2}"),
                           ({"x": (3, 4), "s": (4,), "b": (4,)}, "%r = GroupNormalization(%x, %s, %b) {num_groups=1, epsilon=0.01}")],
    "LRN": [({"x": (2, 5, 2, 2)}, "%r = LRN(%x) {size=3, alpha=0.5, beta=0.8, bias=1.5}"),
            ({"x": (1, 5, 3)}, "%r = LRN(%x) {size=4, alpha=0.5}"), ({"x": (2, 2)}, "%r = LRN(%x) {size=7, alpha=0.9}")],
    "Load": [(X, "const %d : bool[] = true\n%h = Load(%x, %d)\n%r = Mul(%h, %h)")],
    "LpNormalization": [(X, "%r = LpNormalization(%x)"), (X, "%r = LpNormalization(%x) {axis=0, p=1}")],
    "LpPool": [({"x": (1, 2, 5, 4)}, "%r = LpPool(%x) {kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1], p=3}"),
               ({"x": (2, 1, 6)}, "%r = LpPool(%x) {kernel_shape=[2], dilations=[2]}")],
    "Max": [({"x": (3, 4), "y": (4,), "z": (3, 1)}, "%r = Max(%x, %y, %z)"), (X, "%r = Max(%x, %x)"), (X, "%r = Max(%x)")],
    "Mean": [({"x": (3, 4), "y": (4,)}, "%r = Mean(%x, %y, %y)")],
    "MeanVarianceNormalization": [({"x": (3, 2, 2, 3)}, "%r = MeanVarianceNormalization(%x)"),
                                  ({"x": (3, 4)}, "%r = MeanVarianceNormalization(%x) {axes=[-1]}")],
    "Min": [({"x": (3, 4), "y": (4,), "z": (1,)}, "%r = Min(%x, %y, %z)"), (X, "%r = Min(%x, %x, %x)")],
    "Mish": [(X, "%r = Mish(%x)", (-3, 3))],
    "Mod": [({"x": (3, 4), "y": (4,)}, "%r = Mod(%x, %y) {fmod=1}", (0.3, 1)),
            ({"x": (3, 4), "y": (3, 1)}, "%n = Neg(%x)\n%r = Mod(%n, %y) {fmod=0}", (0.3, 1))],
    "OneHot": [({"x": (2,)}, "const %i : i64[3] = [1, 0, 7]\nconst %d : i64[] = 4\n%h = OneHot(%i, %d, %x) {axis=0}\n%r = Mul(%h, %h)")],
    "PRelu": [({"x": (2, 3, 4), "y": (3, 1)}, "%r = PRelu(%x, %y)"), ({"x": (3, 4), "y": ()}, "%r = PRelu(%x, %y)")],
    "QuickGelu": [(X, "%r = QuickGelu(%x)")],
    "RMSNormalization": [({"x": (3, 5), "s": (5,)}, "%r = RMSNormalization(%x, %s)"),
                         ({"x": (2, 3, 4), "s": (3, 4)}, "%r = RMSNormalization(%x, %s) {axis=1, epsilon=0.1}"),
                         ({"x": (2, 3, 4), "s": (1, 4)}, "%r = RMSNormalization(%x, %s) {axis=-2}")],
    "Range": [({"x": (), "y": ()}, "const %l : f64[] = 5\n%h = Range(%x, %l, %y)\n%r = Mul(%h, %h)", (0.9, 1))],
    "ReduceL1": [(X, "const %a : i64[1] = [1]\n%r = ReduceL1(%x, %a)"), (X, "%r = ReduceL1(%x) {keepdims=0}")],
    "ReduceL2": [(X, "const %a : i64[1] = [0]\n%r = ReduceL2(%x, %a) {keepdims=0}"), (X, "%r = ReduceL2(%x)")],
    "ReduceLogSum": [(X, "const %a : i64[1] = [1]\n%r = ReduceLogSum(%x, %a) {keepdims=0}", (1, 2))],
    "ReduceLogSumExp": [(X, "const %a : i64[1] = [1]\n%r = ReduceLogSumExp(%x, %a) {keepdims=0}"), (X, "%r = ReduceLogSumExp(%x)"),
                        (X, "%r = ReduceLogSumExp(%x) {noop_with_empty_axes=1, keepdims=0}")],
    "ReduceMax": [(X, "const %a : i64[1] = [1]\n%r = ReduceMax(%x, %a) {keepdims=0}"), (X, "%r = ReduceMax(%x)")],
    "ReduceMin": [({"x": (2, 3, 2)}, "const %a : i64[2] = [0, -1]\n%r = ReduceMin(%x, %a)")],
    "ReduceProd": [(X, "const %a : i64[1] = [1]\n%r = ReduceProd(%x, %a) {keepdims=0}"), (X, "%r = ReduceProd(%x)"),
                   ({"x": (2, 3, 2)}, "const %a : i64[2] = [0, -1]\n%r = ReduceProd(%x, %a)"),
                   ({"x": (2, 3)}, "const %z : f64[3] = [1, 0, 1]\nconst %a : i64[1] = [1]\n%h = Mul(%x, %z)\n%r = ReduceProd(%h, %a)")],
    "ReduceSumSquare": [(X, "const %a : i64[1] = [1]\n%r = ReduceSumSquare(%x, %a) {keepdims=0}"), (X, "%r = ReduceSumSquare(%x)")],
    "Resize": [({"x": (1, 2, 3, 4)}, "const %e : f32[0] = []\nconst %s : f32[4] = [1, 1, 2, 1.5]\n%r = Resize(%x, %e, %s)"),
               ({"x": (1, 1, 4, 3)}, "const %e : f32[0] = []\nconst %s : i64[4] = [1, 1, 6, 2]\n"
                                     "%r = Resize(%x, %e, %e, %s) {mode=\"linear\", coordinate_transformation_mode=\"align_corners\"}"),
               ({"x": (2, 5)}, "const %e : f32[0] = []\nconst %s : i64[1] = [3]\n"
                               "%r = Resize(%x, %e, %e, %s) {mode=\"cubic\", axes=[-1], antialias=1}"),
               ({"x": (2, 7, 1)}, "const %s : f32[2] = [0.4, 3]\n%r = Resize(%x, _, %s) {mode=\"linear\", axes=[1, 2], antialias=1}"),
               ({"x": (3, 5)}, "const %s : i64[2] = [9, 7]\n%r = Resize(%x, _, _, %s) {mode=\"cubic\", keep_aspect_ratio_policy=\"not_larger\"}"),
               ({"x": (1, 4)}, "const %s : f32[2] = [1, 1]\n%r = Resize(%x, _, %s) {mode=\"linear\"}"),
               ({"x": (2, 3)}, "const %h : f64[2,3] = ones\n%k = Shape(%h)\n%s = Mul(%k, %k)\n"
                               "%r = Resize(%x, _, _, %s) {mode=\"linear\"}")] + [
        ({"x": (1, 2, 3, 5)}, "const %s : f32[4] = [1, 1, 1.7, 0.6]\n" +
         f'%r = Resize(%x, _, %s) {{mode="{m}", coordinate_transformation_mode="{c}", exclude_outside={e}, cubic_coeff_a=-0.5}}')
        for m, e in (("nearest", 0), ("linear", 0), ("cubic", 0), ("cubic", 1))
        for c in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")] + [
        ({"x": (4, 5)}, "const %o : f32[4] = [0.1, -0.4, 0.7, 1.3]\nconst %s : i64[2] = [3, 6]\n" +
         f'%r = Resize(%x, %o, _, %s) {{mode="{m}", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.5}}')
        for m in ("nearest", "linear", "cubic")] + [
        ({"x": (1, 5)}, "const %s : i64[2] = [1, 3]\n" + f'%r = Resize(%x, _, _, %s) {{nearest_mode="{m}"}}')
        for m in ("round_prefer_ceil", "floor", "ceil")],
    "ResizeGrad": [({"d": (1, 1, 5, 2)}, "const %s : f32[2] = [1.7, 0.5]\nconst %k : i64[4] = [1, 1, 3, 4]\n"
                                         '%r = ResizeGrad(%d, _, %s, _, %k) {mode="cubic", axes=[2, 3]}'),
                   ({"d": (3, 6)}, "const %o : f32[4] = [0.1, -0.4, 0.7, 1.3]\nconst %s : i64[2] = [3, 6]\nconst %k : i64[2] = [4, 5]\n"
                    '%r = ResizeGrad(%d, %o, _, %s, %k) {mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=2.0}')],
    "ReverseSequence": [({"x": (4, 3, 2)}, "const %l : i64[3] = [1, 4, 3]\n%h = ReverseSequence(%x, %l)\n%r = Mul(%h, %h)")],
    "ScatterElements": [({"x": (3, 3), "y": (2, 3)}, "const %i : i64[2,3] = [0, 1, -1, 1, 2, 0]\n%h = ScatterElements(%x, %i, %y)\n%r = Mul(%h, %h)"),
                        ({"x": (2, 4), "y": (2, 2)}, "const %i : i64[2,2] = [1, 1, 0, 3]\n"
                         "%h = ScatterElements(%x, %i, %y) {axis=1, reduction=\"add\"}\n%r = Mul(%h, %h)")],
    "ScatterND": [({"x": (4, 2), "y": (2, 2)}, "const %i : i64[2,1] = [3, 0]\n%h = ScatterND(%x, %i, %y)\n%r = Mul(%h, %h)"),
                  ({"x": (2, 2), "y": (3,)}, "const %i : i64[3,2] = [0, 1, 0, 1, 1, 0]\n%h = ScatterND(%x, %i, %y) {reduction=\"add\"}\n%r = Mul(%h, %h)")],
    "Selu": [(X, "%r = Selu(%x)")],
    "Shrink": [(X, "%r = Shrink(%x) {lambd=0.3, bias=0.1}")],
    "Sinh": [(X, "%r = Sinh(%x)")],
    "Softsign": [(X, "%r = Softsign(%x)")],
    "SpaceToDepth": [({"x": (2, 1, 2, 4)}, "%h = SpaceToDepth(%x) {blocksize=2}\n%r = Mul(%h, %h)")],
    "ScaleGradient": [(X, "const %s : f64[] = 1\n%h = ScaleGradient(%x, %s)\n%r = Mul(%h, %x)")],
    "StopGradient": [(X, "%e = Sin(%x)\n%f = Floor(%e)\n%h = StopGradient(%f)\n%r = Add(%h, %x)")],
    "Tan": [(X, "%r = Tan(%x)")],
    "ThresholdedRelu": [(X, "%r = ThresholdedRelu(%x) {alpha=0.2}")],
    "Tile": [({"x": (2, 3)}, "const %k : i64[2] = [3, 1]\n%h = Tile(%x, %k)\n%r = Mul(%h, %h)"),
             ({"x": (2, 1, 2)}, "const %k : i64[3] = [2, 3, 2]\n%r = Tile(%x, %k)"),
             ({"x": (2,)}, "const %k : i64[1] = [1]\n%r = Tile(%x, %k)")],
    "TopK": [({"x": (3, 5)}, "const %k : i64[1] = [2]\n%h, %i = TopK(%x, %k)\n%r = Mul(%h, %h)"),
             ({"x": (4, 2)}, "const %k : i64[1] = [3]\n%r, %i = TopK(%x, %k) {axis=0, largest=0}")],
    "Trilu": [({"x": (2, 3, 4)}, "const %k : i64[] = 1\n%h = Trilu(%x, %k)\n%r = Mul(%h, %h)"), (X, "%r = Trilu(%x) {upper=0}")],
    "Unsqueeze": [(X, "const %a : i64[2] = [0, 2]\n%h = Unsqueeze(%x, %a)\n%r = Mul(%h, %h)")],
}

# Bodies: cases in the order of branches and captures, then of what a node gives
IF = """%r = If(%c; %x, %y) {then_branch=graph(%a : f64[3,4], %b : f64[4]) {
  %s = Sin(%a)
  %p = Mul(%s, %b)
  output %p
}, else_branch=graph(%a : f64[3,4], %b : f64[4]) {
  %e = Exp(%a)
  output %e
}}"""
# the condition hangs on data, and on the sign of k
COND = "const %zero : f64[] = 0\n%sum = ReduceSum(%k) {keepdims=0}\n%c = Greater(%sum, %zero)\n"
XY = {"x": (3, 4), "y": (4,)}
CASES |= {
    "If": [(XY, "const %k : f64[1] = 1\n" + COND + IF),
           # one branch has no gradient of y, and is the one that is taken
           (XY, "const %k : f64[1] = -1\n" + COND + IF),
           # a condition that is known: the branch never taken does not fit
           (XY, "const %c : bool[] = true\n" + IF.replace("%e = Exp(%a)", "%e = MatMul(%a, %a)")),
           (X, "const %y : f64[4] = ones\nconst %c : bool[] = false\n" + IF.replace("%s = Sin(%a)", "%s = MatMul(%a, %a)")),
           # two outputs, one of them a capture, and one value captured twice
           (XY, "const %k : f64[1] = 1\n" + COND + """%u, %v = If(%c; %x, %x, %y) {then_branch=graph(%a : f64[3,4], %b : f64[3,4], %d : f64[4]) {
  %p = Mul(%a, %b)
  output %p
  output %d
}, else_branch=graph(%a : f64[3,4], %b : f64[3,4], %d : f64[4]) {
  output %a
  %e = Mul(%d, %d)
  output %e
}}
%r = Mul(%u, %v)"""),
           # nested, the inner condition from the outer body; shapes differ from branch to branch
           (XY, "const %k : f64[1] = 1\n" + COND + """%h = If(%c; %x, %y) {then_branch=graph(%a : f64[3,4], %b : f64[4]) {
  const %none : f64[] = -100
  %all = ReduceSum(%a) {keepdims=0}
  %d = Greater(%all, %none)
  %s = Tanh(%a)
  %i = If(%d; %s, %b) {then_branch=graph(%f : f64[3,4], %g : f64[4]) {
    %q = Mul(%f, %g)
    %w = Mul(%q, %f)
    output %w
  }, else_branch=graph(%f : f64[3,4], %g : f64[4]) {
    output %f
  }}
  %j = Mul(%i, %a)
  output %j
}, else_branch=graph(%a : f64[3,4], %b : f64[4]) {
  const %rows : i64[1] = [0]
  %e = ReduceSum(%a, %rows)
  output %e
}}
%r = ReduceSum(%h)""")],
}

LOOP = """%r = Loop(%m, _, %x; %w) {body=graph(%i : i64[], %c : bool[], %h : f64[2,3], %v : f64[3,3]) {
  %p = MatMul(%h, %v)
  %t = Tanh(%p)
  output %c
  output %t
}}"""
# ends early: after the trip that makes the sum exceed %most; counts what it does not need, and gives all it can
EARLY = """%n, %k, %g, %last, %all, %twice = Loop(%m, %yes, %x, %zero, %w; %w, %most) {body=graph(%i : i64[], %c : bool[],
    %h : f64[2], %j : i64[], %u : f64[2], %v : f64[2], %e : f64[]) {
  const %one : i64[] = 1
  %f = Cast(%i) {to=f64}
  %a = Mul(%h, %v)
  %b = Sin(%a)
  %d = Add(%b, %f)
  %s = ReduceSum(%d) {keepdims=0}
  %go = Less(%s, %e)
  %l = Add(%j, %one)
  output %go
  output %d
  output %l
  output %h
  output %u
  output %d
  %q = Mul(%d, %v)
  output %q
}}
const %m : i64[] = 9
const %yes : bool[] = true
const %zero : i64[] = 0
%z = ReduceSum(%all, %axis) {keepdims=0}
%y = ReduceSum(%twice, %axis) {keepdims=0}
const %axis : i64[1] = [0]
%a0 = Mul(%n, %g)
%a1 = Mul(%z, %y)
%a2 = Add(%a0, %a1)
%l = ReduceSum(%last, %axis) {keepdims=0}
%a3 = Mul(%a2, %l)
%steps = Cast(%k) {to=f64}
%r = Mul(%a3, %steps)"""
SCAN = """%h, %r = Scan(%x, %y; %w) {num_scan_inputs=1, body=graph(%s : f64[2], %e : f64[2], %v : f64[2]) {
  %a = Mul(%s, %v)
  %b = Add(%a, %e)
  %t = Tanh(%b)
  %o = Mul(%t, %e)
  output %t
  output %o
}}"""
HW, XYW = {"x": (2, 3), "w": (3, 3)}, {"x": (2,), "y": (4, 2), "w": (2,)}
CASES |= {
    "Loop": [(HW, "const %m : i64[] = 3\n" + LOOP),
             (HW, "const %m : i64[] = 1\n" + LOOP),
             # no trip at all: x comes out, and w has nothing to do with it
             ({"x": (2, 3)}, "const %w : f64[3,3] = ones\nconst %m : i64[] = 0\n" + LOOP),
             # nor here, where it is told at run time
             (HW, "const %k : i64[1] = 0\n%m = ReduceSum(%k) {keepdims=0}\n" + LOOP),
             (HW, "const %k : i64[1] = 2\n%m = ReduceSum(%k) {keepdims=0}\n" + LOOP),
             ({"x": (2,), "w": (2,)}, "const %most : f64[] = 5\n" + EARLY),
             ({"x": (2,), "w": (2,)}, "const %most : f64[] = 1000\n" + EARLY),
             ({"x": (2,), "w": (2,)}, "const %most : f64[] = -1000\n" + EARLY),
             # nothing of its own is needed: only the number of trips
             (X, "const %m : i64[] = 4\n%h = Loop(%m, _, %x; %x) {body=graph(%i : i64[], %c : bool[], %h : f64[3,4], %v : f64[3,4]) {\n"
              "  %s = Add(%h, %v)\n  output %c\n  output %s\n}}\n%r = Mul(%h, %x)"),
             # what is scanned only, of a capture
             (X, "const %m : i64[] = 3\n%r = Loop(%m, _; %x) {body=graph(%i : i64[], %c : bool[], %v : f64[3,4]) {\n"
              "  %f = Cast(%i) {to=f64}\n  %e = Mul(%v, %f)\n  %g = Exp(%e)\n  output %c\n  output %g\n}}"),
             # an If in it, which takes either branch
             ({"x": (2, 3), "w": (3,)}, """const %m : i64[] = 4
%n, %r = Loop(%m, _, %x; %w) {body=graph(%i : i64[], %c : bool[], %h : f64[2,3], %v : f64[3]) {
  const %two : i64[] = 2
  %o = Mod(%i, %two)
  %b = Cast(%o) {to=bool}
  %t = If(%b; %h, %v) {then_branch=graph(%a : f64[2,3], %d : f64[3]) {
    %p = Mul(%a, %d)
    output %p
  }, else_branch=graph(%a : f64[2,3], %d : f64[3]) {
    %s = Sin(%a)
    output %s
  }}
  output %c
  output %t
  output %t
}}"""),
             # a Loop in it
             ({"x": (2, 3), "w": (3,)}, """const %m : i64[] = 2
%r = Loop(%m, _, %x; %w) {body=graph(%i : i64[], %c : bool[], %h : f64[2,3], %v : f64[3]) {
  const %k : i64[] = 3
  %t, %q = Loop(%k, _, %h; %v) {body=graph(%i : i64[], %c : bool[], %g : f64[2,3], %u : f64[3]) {
    %p = Mul(%g, %u)
    %s = Sin(%p)
    output %c
    output %s
    output %p
  }}
  const %axis : i64[1] = [0]
  %z = ReduceSum(%q, %axis) {keepdims=0}
  %o = Add(%z, %t)
  output %c
  output %o
}}""")],
    "Scan": [(XYW, SCAN),
             (XYW, SCAN.replace("num_scan_inputs=1", "num_scan_inputs=1, scan_input_directions=[1]")),
             (XYW, SCAN.replace("num_scan_inputs=1", "num_scan_inputs=1, scan_output_directions=[1]") + "\n%q = Mul(%r, %r)\n%r2 = Mul(%q, %h)".replace("%r2", "%z")),
             ({"x": (2,), "y": (2, 4), "w": (2,)}, SCAN.replace("num_scan_inputs=1", "num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[1]")),
             # the state alone, and no state
             (XYW, SCAN.replace("%h, %r", "%r, %q")),
             ({"y": (3, 3), "w": (3,)}, """%r = Scan(%y, %y; %w) {num_scan_inputs=2, scan_input_axes=[0, 1], scan_input_directions=[0, 1], body=graph(%e : f64[3], %f : f64[3], %v : f64[3]) {
  %a = Mul(%e, %v)
  %b = Mul(%a, %f)
  output %b
}}"""),
             # no element
             ({"x": (2,), "w": (2,)}, "const %y : f64[0,2] = zeros\n" + SCAN.replace("%h, %r", "%r, %q"))],
}

# Gradients of gradients, where there is more to it than a line: an op's first case.
TWICE = """AveragePool BatchNormalization Celu Concat Conv ConvTranspose CumProd Div Einsum Erf Gather Gelu Gemm GroupNormalization
    LRN LayerNormalization LogSoftmax LpNormalization MatMul MaxPool Mish NegativeLogLikelihoodLoss Pad Pow RMSNormalization
    ReduceL2 ReduceLogSumExp ReduceMax ReduceProd Relu Resize ResizeGrad ScatterND Sigmoid Slice Softmax SoftmaxCrossEntropyLoss Split Sqrt
    Tanh Transpose Where If Loop Scan""".split()


def dims(shape):
    return ",".join(map(str, shape))


def graph(params, text, kind, square=False):
    """All of %r, or its square, each element with a factor of its own, summed."""
    lines = [f"{kind(n)} %{n} : f64[{dims(s)}]" + (f' = npy("{n}.npy")' if kind(n) == "param" else "")
             for n, s in params.items()]
    for line in text.splitlines():
        lines.insert(len(params), line) if line.startswith("const") else lines.append(line)
    r = "%q0"
    lines.append("%q0 = Mul(%r, %r)" if square else "%q0 = Identity(%r)")
    return "\n".join(lines) + f"\n%q1 = Mul({r}, %factor)\n%loss = ReduceSum(%q1) {{keepdims=0}}\n"


def sh(line, folder):
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, check=True, stdout=subprocess.PIPE).stdout


def shape_of_r(text, folder):
    open(folder + "/f.gg", "w").write(text.split("%q0 = ")[0] + "output %r\n")
    sh("gg-run -q --target=ref f.gg --output r=r.npy", folder)
    return np.load(folder + "/r.npy").shape


def difference(graph, n, value, folder):
    """d loss / d n by central differences of a graph of which n is an input."""
    open(folder + "/f.gg", "w").write(graph)
    steps = np.repeat(value.reshape(1, -1), 2 * value.size, 0)
    for i in range(value.size):
        steps[2 * i, i] += H
        steps[2 * i + 1, i] -= H
    np.save(folder + "/steps.npy", steps.reshape((-1,) + value.shape))
    loss = [float(l.split()[1]) for l in
            sh(f"gg-run -q --target=ref --data {n}=steps.npy --steps={len(steps)} --print loss f.gg", folder)
            .decode().splitlines()]
    return ((np.array(loss[0::2]) - np.array(loss[1::2])) / (2 * H)).reshape(value.shape)


def gradients(graph, names, folder):
    open(folder + "/g.gg", "w").write(graph)
    sh("gg-opt --pass=grad:outputs=1 g.gg -o b.gg && gg-run -q --target=ref b.gg" +
       "".join(f" --output grad.{n}=d{n}.npy" for n in names), folder)
    return {n: np.load(f"{folder}/d{n}.npy") for n in names}


def compare(got, want):
    if got.shape != want.shape:
        return f"has shape {got.shape}"
    worst = np.abs(got - want).max(initial=0) / max(1, np.abs(want).max(initial=0))
    return "" if worst < 1e-6 else f"off by {worst:.3g}"


def of_gradients(graph, params, folder):
    """A loss of the gradients of the first one: each element of them with a factor of its own."""
    open(folder + "/h.gg", "w").write(graph.replace("%loss", "%first"))
    text = sh("gg-opt --pass=grad:of=first:wrt=all:prefix=d. h.gg | gg-dump", folder).decode()
    text = re.sub(r"<id=\d+>", "", text)  # what follows would have some of them too
    text = "".join(l + "\n" for l in text.splitlines() if not l.startswith(("output", "stage", "history")))
    for n, s in params.items():
        text += f'const %c.{n} : f64[{dims(s)}] = npy("c.{n}.npy")\n%m.{n} = Mul(%d.{n}, %c.{n})\n'
        text += f"%s.{n} = ReduceSum(%m.{n}) {{keepdims=0}}\n"
    return text + f"%loss = Sum({', '.join('%s.' + n for n in params)})\noutput %loss\n"


def check(params, text, bounds, folder, rng, twice=False):
    lo, hi = bounds
    values = {n: rng.uniform(lo, hi, s) for n, s in params.items()}
    for n, s in params.items():
        np.save(f"{folder}/{n}.npy", values[n])
        np.save(f"{folder}/c.{n}.npy", rng.normal(size=s))
    factor = rng.normal(size=shape_of_r(graph(params, text, lambda n: "param"), folder))
    np.save(folder + "/factor.npy", factor)
    const = f'const %factor : f64[{dims(factor.shape)}] = npy("factor.npy")\n'

    def whole(kind):
        g = const + graph(params, text, kind, twice) + "output %loss\n"
        return of_gradients(g, params, folder) if twice else g

    got = gradients(whole(lambda n: "param"), params, folder)
    for n in params:
        want = difference(whole(lambda k: "input" if k == n else "param"), n, values[n], folder)
        why = compare(got[n], want)
        if why:
            return f"{n} {why}"
    return ""


def cases(ops):
    for op in ops:
        for i, case in enumerate(CASES.get(op, [None])):
            yield f"{op} {i}", case, False
    for op in ops:
        if op in TWICE:
            yield f"{op} twice", CASES[op][0], True


def main():
    number, bad = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, case, twice in cases(sys.argv[1:] or RULES):
            number += 1
            rng = np.random.default_rng(zlib.crc32(name.encode()))  # a case has its values, whatever stands before it
            if case is None:
                why = "has no case"
            else:
                try:
                    why = check(case[0], case[1], case[2] if len(case) > 2 else (-1, 1), folder, rng, twice)
                except subprocess.CalledProcessError:
                    why = "fails"
            bad += bool(why)
            print(f"{'not ' if why else ''}ok {number} - {name}{': ' if why else ''}{why}")
    print(f"1..{number}")
    return bad > 0 or number == 0


sys.exit(main())
