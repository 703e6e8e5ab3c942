#!/usr/bin/env python3
"""Writes what tests/plane.rs and tests/placement.rs compare with: scenarios of an exact model of
the virtual plane, and cases of what is kept, with the model's answers.

    extract.py FOLDER plane > plane.json
    extract.py FOLDER tiers > tiers.json

FOLDER has vip_plane.py and vip_tiers.py: integer models in Python that share no code with this
crate. The first has Plane (slot, direction, kept), scenarios() and trace(); the second cases(),
knapsack, by_density, assign, by_swaps and arrive. What is random in a scenario is a generator that
its text states, so what is written holds the thresholds of its draws and the test draws anew.
"""
import hashlib
import json
import sys


def arrivals(closure):
    """How requests come: the fluid's amounts, or seed and thresholds of the draws."""
    cells = dict(zip(closure.__code__.co_freevars, (c.cell_contents for c in closure.__closure__)))
    if "A" in cells:
        return {"steady": {n: v for n, v in cells["A"].items()}}
    state = dict(zip(cells["next32"].__code__.co_freevars,
                     (c.cell_contents for c in cells["next32"].__closure__)))["state"]
    rates = {n: [int(x * (1 << 32)) for x in v] for n, v in sorted(cells["rates"].items())}
    return {"seed": state[0], "below": rates}


def plane(model):
    for name, (p, draw, slots) in model.scenarios().items():
        out = dict(
            name=name, nodes=len(p.nodes), objects=p.K, alpha=p.alpha, slots=slots, decay=p.D,
            follow=p.mode, links=[[a, b, c] for (a, b), c in p.cap.items()],
            source=[p.source[k] for k in range(p.K)], hops=[p.hops[n] for n in p.nodes],
            room=[p.room.get(n, 0) for n in p.nodes], reads=[p.r[n] for n in p.nodes],
            held=[sorted(p.s[n]) for n in p.nodes], arrivals=arrivals(draw),
        )
        moved, early = hashlib.sha256(), []
        for t, p, counts in model.trace(name):
            for n in p.nodes:
                moved.update(bytes(1 if k in p.s[n] else 0 for k in range(p.K)))
            for link in sorted(p.sent):
                moved.update(b"".join(v.to_bytes(8, "big") for v in p.sent[link]))
            if t < 3:
                early.append([p.V[n][:] for n in p.nodes])
        out.update(
            early_counts=early, counts=[p.V[n] for n in p.nodes], counts_sha256=counts.hexdigest(),
            moved_sha256=moved.hexdigest(), kept=[p.kept(n) for n in p.nodes],
            direction=[[p.direction(n, k) for k in range(p.K)] for n in p.nodes],
        )
        yield out


def tiers(model):
    for what, c in model.cases():
        if what == "knapsack":
            best, kept = model.knapsack(**c)
            yield dict(case=what, **c, best=best, by_density=model.by_density(**c)[0])
            continue
        total, put = model.assign(**c)
        held = [{k for k, j in c["now"].items() if j == i} for i in range(len(c["tiers"]))]
        ranks = sorted(range(len(c["scores"])), key=lambda k: -c["scores"][k])
        new = next(k for k in ranks if k not in c["now"])
        moves = model.arrive(new, c["scores"], c["tiers"], held, c["weight"])
        yield dict(case=what, **c, total=total, put=put, arrives=new, moves=moves)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    if sys.argv[2] == "plane":
        import vip_plane as model
        lines = plane(model)
    else:
        import vip_tiers as model
        lines = tiers(model)
    print("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]")
