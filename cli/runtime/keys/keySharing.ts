import { setTimeout as sleep } from 'node:timers/promises'
import { deserialize, serialize } from 'node:v8'
import { keyIsShared, notStarted } from '../../../adapters/chains/refuse.ts'
import type { HeldLease } from '../../../core/payments/heldLease.ts'
import { leaseNamesOf } from '../../../core/payments/keyLease.ts'
import type {
  Hold,
  SettleOutcome,
  Settler,
  Verified,
  VerifyContext,
} from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Lease, Leases } from '../../../core/ports/store/leases.ts'
import type { Letters } from '../../../core/ports/store/letters.ts'
import type { FromPrimary, FromWorker } from '../cluster/messages.ts'
import { createPrimarySettling, type PrimarySettling } from '../cluster/settleInPrimary.ts'
import { type Asked, type KeyDesk, openKeyDesk } from './keyDesk.ts'

/** Between two looks whether those who were asked, and those who ask, are still there. */
const LOOK_MS = 1_000
/** A question is asked again after this: longer than most answers take, short for a buyer whose letter a restart has lost. */
const ASK_AGAIN_MS = 3_000
/** After so long a question whether a payment is good was lost on its way, or its answer, while the store was away. */
const MOST_VERIFY_MS = 20_000
/** The same of a settlement: longer than any holder waits for a store and for a receipt. */
const MOST_SETTLE_MS = 90_000
/** So long a settlement whose seller has worked waits for some process to have the key: longer than a lost one is leased. */
const NO_HOLDER_MS = 20_000
const NO_HOLDER_LOOK_MS = 250
/** How long the holder's refusal of every payment counts here without another payment: as long as a holder keeps it at least. */
const REFUSES_ALL_MS = 60_000

/**
 * Who settles with a key, among the processes of a store: the one that has its lease does, and the others hand it what they
 * are paid, by letters. Holds and budgets are counted where the key is; rows are written by the process whose call it is.
 */
export interface KeySharing {
  /** A settler that verifies and settles here while this process has its key, and where the key is otherwise. */
  wrap(settler: Settler): Settler
  /**
   * This process has these leases: the settler's own, and those of its keys. While `isHeld` says that it can settle, it takes what
   * others ask under any of them; otherwise what is paid here goes to whoever has a key, as if it had none.
   */
  holds(settler: Settler, leases: readonly Lease[], isHeld: () => boolean): void
  /** It has it no more. */
  lost(settler: Settler): void
  close(): Promise<void>
}

export interface KeySharingParts {
  readonly letters: Letters
  readonly leases: Pick<Leases, 'holderOf'>
  /** This process's own, to which answers come. */
  readonly lease: Pick<HeldLease, 'current'>
  readonly log: Log
}

/** The way to one holder of one key. */
interface Line {
  readonly holder: number
  readonly settling: PrimarySettling
  readonly remote: Settler
  /** Until then its refusal of one payment, because the key is used elsewhere, counts for every payment. */
  refusesAllUntilMs: number
}

interface OwnKey {
  readonly leases: readonly Lease[]
  readonly isHeld: () => boolean
  /** By the lease's fencing token. */
  readonly desks: ReadonlyMap<number, KeyDesk>
}

export function createKeySharing({ letters, leases, lease, log }: KeySharingParts): KeySharing {
  const own = new Map<string, OwnKey>()
  /** By settler. */
  const lines = new Map<string, Line>()
  let address = lease.current
  let endListening = letters.listen(address.id, hear)

  function hear({ from, body }: { readonly from: number; readonly body: Uint8Array }): void {
    const message = deserialize(body) as FromPrimary
    for (const { holder, settling } of lines.values())
      if (holder === from && settling.receive(message)) return
    // Its line was given up before it answered: it would hold this for as long as this process lives.
    if (message.type !== 'verified' || message.refusal !== null) return
    const asked: Asked = { name: address.name, message: { type: 'release', held: message.call } }
    letters
      .post([{ to: from, from: address.id, body: serialize(asked) }])
      .catch((err: unknown) => log.warn({ err }, 'could not give back what is held for nobody'))
  }

  /**
   * The lease to write to: that of a key, because a gateway with another list may have the keys while one with this list has its
   * desk; the desk's while nobody else has any.
   */
  async function holderFor(settler: Settler): Promise<number | undefined> {
    const isMine = (lease: number) => own.get(settler.id)?.leases.some((one) => one.id === lease) === true
    for (const name of leaseNamesOf(settler)) {
      const holder = await leases.holderOf(name)
      if (holder !== undefined && !isMine(holder.id)) return holder.id
    }
    return undefined
  }

  /** Opens a way to whoever has the key now. @returns undefined while nobody else has it, or the store can't say */
  async function lineTo(settler: Settler): Promise<Line | undefined> {
    const holder = await holderFor(settler)
    const known = lines.get(settler.id)
    if (known !== undefined && known.holder === holder) return known
    hangUp(settler.id)
    if (holder === undefined) return undefined
    const from = address
    const send = (message: FromWorker) => {
      const asked: Asked = { name: from.name, message }
      letters.post([{ to: holder, from: from.id, body: serialize(asked) }]).catch((err: unknown) => {
        log.warn({ err }, 'could not ask the process that settles')
        // Nothing of what waits was heard for sure: as if it were gone.
        if (lines.get(settler.id) === line) hangUp(settler.id)
      })
    }
    const settling = createPrimarySettling(send)
    const line: Line = { holder, settling, remote: settling.wrap(settler), refusesAllUntilMs: 0 }
    lines.set(settler.id, line)
    return line
  }

  function hangUp(id: string): void {
    const line = lines.get(id)
    lines.delete(id)
    line?.settling.lost()
  }

  function closeDesks(id: string): void {
    for (const desk of own.get(id)?.desks.values() ?? []) desk.close()
    own.delete(id)
  }

  const settlers = new Map<string, Settler>()

  async function look(): Promise<void> {
    // This process stood still for too long, and answers go where nobody listens.
    if (lease.current.id !== address.id) {
      for (const id of [...lines.keys()]) hangUp(id)
      endListening()
      address = lease.current
      endListening = letters.listen(address.id, hear)
    }
    for (const { settling } of lines.values()) {
      settling.askAgain(ASK_AGAIN_MS)
      settling.refuseLate(MOST_VERIFY_MS)
      settling.endLate(MOST_SETTLE_MS)
    }
    for (const [id, { settling }] of lines) if (settling.waiting > 0) await lineTo(settlers.get(id)!)
    for (const { desks } of own.values()) for (const desk of desks.values()) await desk.look()
  }

  let looking: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    looking = looking.then(look).catch((err: unknown) => log.warn({ err }, 'could not say who settles'))
  }, LOOK_MS)
  timer.unref()

  const isOwn = ({ id }: Settler) => own.get(id)?.isHeld() === true

  /** What is held elsewhere: by whom, and for whom it was verified. */
  const heldBy = new WeakMap<Hold, { readonly line: Line | undefined; readonly context: VerifyContext }>()

  const verifyBy =
    (settler: Settler): Settler['verify'] =>
    async (payment, terms, identity, context) => {
      const line = isOwn(settler) ? undefined : await lineTo(settler).catch(() => undefined)
      const verified = await (line?.remote ?? settler).verify(payment, terms, identity, context)
      if (line !== undefined) {
        if (verified.ok) line.refusesAllUntilMs = 0
        else if (verified.reason === keyIsShared.reason)
          line.refusesAllUntilMs = performance.now() + REFUSES_ALL_MS
      }
      if (verified.ok) heldBy.set(verified.hold, { line, context })
      return verified
    }

  /** What the holder of the key has said of all payments, as it alone watches the key. */
  const refusesAllBy = (settler: Settler) => () => {
    if (isOwn(settler)) return settler.refusesAll?.()
    const untilMs = lines.get(settler.id)?.refusesAllUntilMs ?? 0
    return performance.now() < untilMs ? keyIsShared : undefined
  }

  const isWhereItWas = (settler: Settler, line: Line | undefined): boolean =>
    line === undefined ? isOwn(settler) : !isOwn(settler) && lines.get(settler.id) === line

  /** The key is elsewhere than when the payment was verified: it is verified there, as soon as somebody has it. */
  async function verifyAgain(settler: Settler, ...asked: Parameters<Settler['verify']>): Promise<Verified> {
    const endMs = performance.now() + NO_HOLDER_MS
    for (;;) {
      const verified = await verifyBy(settler)(...asked)
      if (verified.ok || verified.reason !== notStarted.reason || performance.now() >= endMs) return verified
      await sleep(NO_HOLDER_LOOK_MS, undefined, { ref: false })
    }
  }

  const settleBy =
    (settler: Settler): Settler['settle'] =>
    async (payment, terms, identity, store, hold) => {
      const known = hold === undefined ? undefined : heldBy.get(hold)
      if (hold === undefined || known === undefined)
        return settler.settle(payment, terms, identity, store, hold)
      // Whoever was to settle may be gone since: the line says so once it has been looked at.
      if (known.line !== undefined) await lineTo(settler).catch(() => undefined)
      if (isWhereItWas(settler, known.line)) {
        const outcome = await (known.line?.remote ?? settler).settle(payment, terms, identity, store, hold)
        // Nothing was stored, because the key went elsewhere meanwhile.
        if (outcome.status !== 'rejected' || outcome.reason !== notStarted.reason) return outcome
      } else hold.release()
      const verified = await verifyAgain(settler, payment, terms, identity, known.context)
      if (!verified.ok) return rejectedBy(verified)
      const { line } = heldBy.get(verified.hold)!
      return (line?.remote ?? settler).settle(payment, terms, identity, store, verified.hold)
    }

  return {
    wrap(settler) {
      if (settler.isExclusive !== true) return settler
      settlers.set(settler.id, settler)
      return Object.create(settler, {
        verify: { value: verifyBy(settler) },
        settle: { value: settleBy(settler) },
        refusesAll: { value: refusesAllBy(settler) },
      }) as Settler
    },
    holds({ id, network }, ownLeases, isHeld) {
      hangUp(id)
      const settler = settlers.get(id)!
      const only = {
        assets: [],
        settlers: [settler],
        settler: (of: string) => (of === network ? settler : undefined),
      }
      // A desk that is open stays open: whoever listens anew could hear a letter twice, and what it holds for others would be lost.
      const open = new Map(own.get(id)?.desks)
      const desks = new Map<number, KeyDesk>()
      for (const lease of isHeld() ? ownLeases : []) {
        if (desks.has(lease.id)) continue
        const desk = open.get(lease.id) ?? openKeyDesk(lease.id, { letters, leases, chains: only, log })
        desks.set(lease.id, desk)
        open.delete(lease.id)
      }
      for (const desk of open.values()) desk.close()
      own.set(id, { leases: ownLeases, isHeld, desks })
    },
    lost: ({ id }) => closeDesks(id),
    async close() {
      clearInterval(timer)
      await looking
      for (const id of [...own.keys()]) closeDesks(id)
      for (const id of [...lines.keys()]) hangUp(id)
      endListening()
    },
  }
}

const rejectedBy = ({ reason, message, transient }: Exclude<Verified, { ok: true }>): SettleOutcome => ({
  ...{ status: 'rejected', reason, message },
  ...(transient === true && { transient }),
})
