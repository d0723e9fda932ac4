# SPDX-License-Identifier: GPL-2.0
"""Combines the findings of all tests: one answer for each question, or "cannot tell" if tests
contradict each other."""

from dataclasses import replace

from .session import Finding

# An answer with less confidence counts as none.
LEAST = 0.5
# Confidence in bands that a drive needs to be called shingled.
BANDS_SURE = 0.95
# The test whose answer is used if others give the same, because it has examined more.
CLOSER = "filled"
# Answers that a drive without a persistent cache does not have.
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
    for test, doubt in some:
        if doubt.against is None:
            continue
        refuted = [(t, f) for t, f in known if f.value == doubt.against]
        if refuted and len(refuted) == len(known):
            return Finding.unknown(f"Test {test}: {doubt.says}; " + "; ".join(
                f"Test {t} says {told(f)}: {f.says}" for t, f in refuted), doubt.unit)
        known = [tf for tf in known if tf not in refuted]
    if not known:
        weak = [f"Test {t}: {f.says or 'no reason given'}" for t, f in some]
        return Finding.unknown(some[0][1].says if len(some) == 1 else "; ".join(weak),
                               some[0][1].unit, none=any(f.none for _, f in some))
    test, best = max(known, key=lambda tf: tf[1].confidence)
    against = [(t, f) for t, f in known if not agree(best, f)]
    if not against:
        return next((f for t, f in known if t == CLOSER), best)
    other, second = max(against, key=lambda tf: tf[1].confidence)
    # The odds of two independent decisions, one of which must be wrong.
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
    """Whether values are the same, or intervals overlap; without intervals, within 5 %."""
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


def kind_of(moves, out):
    """drive_type, from what tests found about places, @moves, and from all other answers.

    Blocks that are elsewhere after writing are a translation; log-structured drives and write
    caches have one, too.  A cache that fills (a cliff) or is emptied when idle (cleaning) is
    no sign of shingles either.  Tracks that overlap must be rewritten from one guard to the
    next, whatever was written between: these are bands.  They decide, if Test 11 has seen
    them begin and end at the same blocks in two places.  Older results call a translation
    shingled."""
    if moves.value not in ("translated", "shingled"):
        return moves
    band = out.get("band_bytes")
    if band and band.value is not None:
        sure = max(0.0, moves.confidence + band.confidence - 1)
        if sure >= BANDS_SURE:
            return replace(moves, value="shingled", confidence=sure,
                           says=f"{moves.says}; and bands are rewritten as a whole: {band.says}")
        lacks = f"that there are bands is not sure enough ({100 * band.confidence:.1f} %)"
    elif band:
        lacks = f"no bands were seen ({band.says})" if band.says else "no bands were seen"
    else:
        lacks = "whether there are bands was not asked (Test 11)"
    cliff, cleaning = (out.get(name) for name in ("writes_until_cleaning", "cleaning_type"))
    seen = ["it fills"] if cliff and cliff.value is not None else []
    if cleaning and cleaning.value == "aggressive":
        seen.append("it is emptied when the host does not write")
    also = f"; {' and '.join(seen)}, as a write cache does, too" if seen else ""
    return replace(moves, value="translated",
                   says=f"{moves.says}: a translation, and no sign of shingles by itself; "
                   f"{lacks}{also}")


def consistent(out):
    """Applies consequences of other answers: the kind of drive, and that a conventional drive
    has no bands."""
    kind = out.get("drive_type")
    if not kind:
        return out
    kind = out["drive_type"] = kind_of(kind, out)
    if kind.value == "conventional":
        for name in OF_SHINGLED:
            if name in out and out[name].value is not None:
                out[name] = Finding.unknown(
                    "the drive is conventional and has none; a test said "
                    f"{told(out[name])}", out[name].unit, none=True)
    return out
