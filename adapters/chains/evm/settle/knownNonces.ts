/** So many account nonces a reorganisation may take back. */
const REORG_NONCES = 256

/** A transaction on its way. */
export interface LiveTransaction {
  /** Signed; empty while it is not stored yet, or where a former process has signed it. */
  readonly bytes: string
  /** The most that it can cost. */
  readonly mostWei: bigint
  /** How many it settles. */
  readonly payments: number
  /** By this machine's monotonic clock: since when it waits for its block. */
  readonly sinceMs: number
  /** Its attempt is in the store. */
  readonly isStored?: true
  readonly isFiller?: true
}

/** What this process knows of an account's nonces. It asks nobody: what chain and store say is told to it. */
/** A gap with more numbers than this is none that this installation has left: a node has said what is not so. Each number filled costs gas. */
export const MOST_FILLED = 10_000

export interface KnownNonces {
  /** By nonce, until they are mined. */
  readonly live: Map<number, LiveTransaction>
  /** Nonces that no payment will use any more; something has to. */
  readonly abandoned: Set<number>
  /** Nonces that payments of former processes were settled with not long ago, and that the chain has not used any more. */
  readonly formerlyMined: Set<number>
  /** Below this one all are used, as was seen here: numbers follow each other. */
  readonly usedBelow: number
  /** The payments in `live`. */
  readonly payments: number
  /** How long the oldest transaction that was sent has waited for its block, in ms; 0 while there is none. */
  readonly oldestMs: number
  /** The most that `live` can cost, in wei. */
  readonly committedWei: bigint
  /** Some nonce was filled, lately enough for a reorganisation to take that back. */
  readonly hasFillers: boolean
  /** The chain has used it, with these bytes; they are empty where a former process has signed them. */
  mined(nonce: number, bytes: string): void
  /** The chain has used all nonces below. */
  minedBelow(next: number): void
  /** Of nonces below this one that the node has in its pool or in blocks nothing has to be known. */
  forgetFormerly(next: number): void
  /** What there is to send for a nonce again; undefined where there is nothing. */
  bytesOf(nonce: number): string | undefined
  /** All of them from this one on, lowest first. */
  from(next: number): number[]
  /**
   * Nonces from the next one on that nobody here knows, once transactions have waited behind them for `afterMs`. A former process
   * used them, and a reorganisation took that back. None where they are more than {@link MOST_FILLED}.
   */
  strandedFrom(next: number, afterMs: number): number[]
  /** Transactions wait behind a nonce that nobody here knows. */
  readonly isStranded: boolean
  /** Nobody could see that it is so still. */
  forgetStranded(): void
}

export function createKnownNonces(): KnownNonces {
  const live = new Map<number, LiveTransaction>()
  const abandoned = new Set<number>()
  const formerlyMined = new Set<number>()
  /** Bytes that were mined: a reorganisation can leave them out again, and what came after them waits for nothing else. */
  const used = new Map<number, { readonly bytes: string; readonly isFiller: boolean }>()
  /** Numbers follow each other: those below are used, by whichever transaction. */
  let usedBelow = 0
  /** The lowest nonce that transactions wait behind and nobody here knows, since when. */
  let stranded: { readonly nonce: number; readonly sinceMs: number } | undefined

  const isKnown = (nonce: number) => live.has(nonce) || abandoned.has(nonce) || used.has(nonce)

  const forgetFormerly = (next: number): void => {
    for (const nonce of formerlyMined) if (nonce < next) formerlyMined.delete(nonce)
  }

  return {
    ...{ live, abandoned, formerlyMined, forgetFormerly },
    get usedBelow() {
      return usedBelow
    },
    get payments() {
      let sum = 0
      for (const { payments } of live.values()) sum += payments
      return sum
    },
    get oldestMs() {
      const nowMs = performance.now()
      let sinceMs = nowMs
      for (const [nonce, one] of live)
        if (nonce >= usedBelow && one.bytes !== '') sinceMs = Math.min(sinceMs, one.sinceMs)
      return nowMs - sinceMs
    },
    get committedWei() {
      let sum = 0n
      for (const { mostWei } of live.values()) sum += mostWei
      return sum
    },
    get hasFillers() {
      return [...live.values(), ...used.values()].some(({ isFiller }) => isFiller)
    },
    mined(nonce, bytes) {
      live.delete(nonce)
      usedBelow = Math.max(usedBelow, nonce + 1)
      if (bytes !== '') used.set(nonce, { bytes, isFiller: false })
      // Numbers follow each other: so many are kept, however many there have been.
      used.delete(nonce - REORG_NONCES)
    },
    minedBelow(next) {
      for (const [nonce, { bytes, isFiller }] of live) {
        if (nonce >= next) continue
        live.delete(nonce)
        if (bytes !== '') used.set(nonce, { bytes, isFiller: isFiller === true })
      }
      for (const nonce of used.keys()) if (nonce < next - REORG_NONCES) used.delete(nonce)
      forgetFormerly(next)
    },
    bytesOf(nonce) {
      const bytes = live.get(nonce)?.bytes ?? used.get(nonce)?.bytes
      return bytes === '' ? undefined : bytes
    },
    from(next) {
      const all = new Set([...live.keys(), ...abandoned, ...used.keys()])
      return [...all].filter((nonce) => nonce >= next).sort((a, b) => a - b)
    },
    strandedFrom(next, afterMs) {
      // One whose payment is over waits as well: its bytes may be in the pool still, and nothing can take their place there.
      const waiting = Math.min(...[...live.keys(), ...abandoned].filter((nonce) => nonce >= next))
      if (waiting === Number.POSITIVE_INFINITY || isKnown(next)) {
        stranded = undefined
        return []
      }
      const nowMs = performance.now()
      if (stranded?.nonce !== next) stranded = { nonce: next, sinceMs: nowMs }
      else if (nowMs - stranded.sinceMs >= afterMs && waiting - next <= MOST_FILLED)
        return Array.from({ length: waiting - next }, (_, i) => next + i).filter((nonce) => !isKnown(nonce))
      return []
    },
    get isStranded() {
      return stranded !== undefined
    },
    forgetStranded() {
      stranded = undefined
    },
  }
}
