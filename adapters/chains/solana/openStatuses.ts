import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../core/ports/clock.ts'
import { askStatuses, maxSignatures, type SignatureStatus } from './confirm.ts'
import type { Rpc } from './rpc.ts'

/** Open transactions that are remembered; of more than these some cost a question of their own. */
const maxOpen = 10_000
/** Nobody has asked for it in so long: it is not open any more, or another process looks after it. */
const forgottenAfterMs = 60_000
/** How long an answer counts: less than a round of the reconciler, so that every round asks anew. */
const freshMs = 1_000

interface Known {
  status: SignatureStatus | null
  askedAtMs: number
}

/**
 * Where transactions stand whose outcome nobody waits for any more. Who looks after them comes for some at a time;
 * each question is for all of them, so that a round over many costs hardly more calls than a round over one.
 */
export interface OpenStatuses {
  /** As of now, or of a second ago at most. @throws {RpcUnreachable} when no node answers */
  of(signature: string): Promise<SignatureStatus | null>
  /** What is known of it counts no more: it was sent again. */
  outdate(signature: string): void
  /** It is open no more. */
  forget(signature: string): void
}

export function createOpenStatuses(rpc: Rpc, clock: Clock): OpenStatuses {
  const open = new LRUCache<string, Known>({ max: maxOpen, ttl: forgottenAfterMs, updateAgeOnGet: true })
  const wanted = new Set<string>()
  let asking: Promise<void> | undefined

  const isFresh = ({ askedAtMs }: Known) => Math.abs(clock.now() - askedAtMs) < freshMs

  const ask = async (signatures: readonly string[]): Promise<void> => {
    const askedAtMs = clock.now()
    const { value } = await askStatuses(rpc, signatures, true)
    for (const [i, signature] of signatures.entries()) {
      const known = open.peek(signature)
      if (known !== undefined) Object.assign(known, { status: value[i] ?? null, askedAtMs })
    }
  }
  /** For everybody who came in this turn of the loop, and in the room that is left for who will come next. */
  const askForAll = async (): Promise<void> => {
    await new Promise(setImmediate)
    asking = undefined
    const all = new Set(wanted)
    wanted.clear()
    // Who was asked about longest ago is next in a round.
    for (const signature of open.rkeys()) {
      if (all.size % maxSignatures === 0) break
      if (!isFresh(open.peek(signature)!)) all.add(signature)
    }
    const signatures = [...all]
    const pages: Promise<void>[] = []
    for (let i = 0; i < signatures.length; i += maxSignatures)
      pages.push(ask(signatures.slice(i, i + maxSignatures)))
    await Promise.all(pages)
  }

  return {
    async of(signature) {
      let known = open.get(signature)
      if (known !== undefined && isFresh(known)) return known.status
      if (known === undefined) {
        known = { status: null, askedAtMs: Number.NEGATIVE_INFINITY }
        open.set(signature, known)
      }
      wanted.add(signature)
      asking ??= askForAll()
      await asking
      return known.status
    },
    outdate(signature) {
      const known = open.peek(signature)
      if (known !== undefined) known.askedAtMs = Number.NEGATIVE_INFINITY
    },
    forget: (signature) => void open.delete(signature),
  }
}
