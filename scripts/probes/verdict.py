# SPDX-License-Identifier: GPL-2.0
"""What all tests say together: one answer for each question, and where they
contradict each other, "cannot tell"."""

from dataclasses import replace

from .session import Finding

# Below, an answer is worth less than none.
LEAST = 0.5
# What a drive without a persistent cache doesn't have.
OF_SHINGLED = ("cache_layout", "cleaning_type", "cleaning_order", "clean_idle_ms",
               "writes_until_cleaning", "raw_bytes", "map_entries", "cache_bytes", "log_structure",
               "band_bytes", "clean_band_ms", "mapping", "write_unit_bytes")


def answers(results):
    """{name: Finding} of {test: Result}."""
    found = {}
    for test, result in results.items():
        for name, finding in result.findings.items():
            found.setdefault(name, []).append((test, finding))
    out = {name: one_of(some) for name, some in found.items()}
    return consistent(out)


def one_of(some):
    """One Finding of several [(test, Finding)] with the same name."""
    known = [(t, f) for t, f in some if f.value is not None and f.confidence >= LEAST]
    if not known:
        weak = [f"Test {t}: {f.says or 'no reason given'}" for t, f in some]
        return Finding.unknown(some[0][1].says if len(some) == 1 else "; ".join(weak),
                               some[0][1].unit)
    test, best = max(known, key=lambda tf: tf[1].confidence)
    against = [(t, f) for t, f in known if not agree(best, f)]
    if not against:
        return best
    other, second = max(against, key=lambda tf: tf[1].confidence)
    # Of independent decisions one of which must be wrong, the odds.
    wrong, right = 1 - best.confidence, 1 - second.confidence
    sure = (1 - wrong) * right / max((1 - wrong) * right + wrong * (1 - right), 1e-12)
    if sure < 0.95:
        return Finding.unknown(
            f"Test {test} says {told(best)}, Test {other} says {told(second)}", best.unit)
    return replace(best, confidence=sure, says=f"{best.says}; against Test {other}, which "
                   f"says {told(second)}")


def told(finding):
    """A value in a sentence."""
    return f"{finding.value} {finding.unit}".strip()


def agree(a, b):
    """The same value, or intervals that meet; without intervals, 5 %."""
    number = all(isinstance(f.value, (int, float)) and not isinstance(f.value, bool)
                 for f in (a, b))
    if not number:
        return a.value == b.value

    def ends(f):
        slack = 0 if f.low is not None and f.high is not None else 0.05 * abs(f.value)
        return (f.low if f.low is not None else f.value - slack,
                f.high if f.high is not None else f.value + slack)
    (a_low, a_high), (b_low, b_high) = ends(a), ends(b)
    return a_low <= b_high and b_low <= a_high


def consistent(out):
    """What follows from the kind of drive: a conventional one has no bands."""
    kind = out.get("drive_type")
    if not kind:
        return out
    if kind.value == "conventional":
        for name in OF_SHINGLED:
            if name in out and out[name].value is not None:
                out[name] = Finding.unknown(
                    "the drive is conventional and has none; a test said "
                    f"{told(out[name])}", out[name].unit)
    return out
