/** The chain is asked at the end; this much of the time, at most, is kept for it. */
const CHAIN_SHARE = 3
const MAX_CHAIN_MS = 20_000

export interface Deadline {
  /** Ends first: for the calls to the seller. */
  readonly calls: AbortSignal
  /** Ends last: for the chain. */
  readonly all: AbortSignal
}

/** The end of a run: calls stop a third of the time (at most 20 s) before the rest, so that the chain can be asked. */
export function startDeadline(totalMs: number, interrupt: AbortSignal | undefined): Deadline {
  const callsMs = totalMs - Math.min(Math.floor(totalMs / CHAIN_SHARE), MAX_CHAIN_MS)
  const interrupts = interrupt === undefined ? [] : [interrupt]
  return {
    calls: AbortSignal.any([...interrupts, AbortSignal.timeout(callsMs)]),
    all: AbortSignal.any([...interrupts, AbortSignal.timeout(totalMs)]),
  }
}

/** A signal that also ends after `ms`, when that is given. */
export const within = (signal: AbortSignal, ms: number | undefined): AbortSignal =>
  ms === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(ms)])
