import { feesId } from '../effects/budgetSpends.ts'
import type { Decoded } from '../effects/decoded.ts'
import { amountWords } from '../effects/plainWords.ts'
import { VaultError } from '../errors/error.ts'
import type { BudgetBook, BudgetRefusal } from '../ports/budget.ts'
import type { VaultCall } from './vaultCall.ts'

/** Money that is held back; see {@link BudgetBook.reserve}. */
interface Held {
  readonly reservationId: string
  readonly isRepeat: boolean
  readonly durable: Promise<void>
}

/**
 * Holds back what a request may cost, all limits and the count in one step. Nothing is held for what costs nothing.
 *
 * @throws `BUDGET_EXCEEDED_TX`, `BUDGET_EXCEEDED_DAILY`
 */
export function reserve(budget: BudgetBook, x: VaultCall, id: string): Held | null {
  const { spends } = x.plan!
  if (spends.length === 0) return null
  const held = budget.reserve({ id, agentId: x.caller.id, spends, limits: x.limits })
  if (!held.ok) throw budgetError(held, x.plan!.judged?.decoded)
  // Whoever waits for it hears of a failure; nobody else has to.
  held.durable.catch(() => undefined)
  return { reservationId: held.id, isRepeat: held.isRepeat, durable: held.durable }
}

/**
 * Notes that a signature's money is counted, under the approval that allowed it: the same bytes are not counted again, whoever
 * allows them next.
 */
export function markCounted(budget: BudgetBook, agentId: string, id: string): void {
  try {
    if (budget.isCommitted(id)) return
    const marked = budget.reserve({ id, agentId, spends: [], limits: [] })
    if (!marked.ok || marked.isRepeat) return
    marked.durable.catch(() => undefined)
    budget.commit(id)
  } catch {
    // The vault was locked meanwhile. It is made up for after the next unlock.
  }
}

/** @param decoded what the money is for: its assets are named as people do */
export function budgetError(refusal: BudgetRefusal, decoded?: Decoded): VaultError {
  const { subject } = refusal
  const whose =
    subject.kind === 'agent' ? 'the agent' : subject.kind === 'vault' ? 'the vault' : 'this recipient'
  const words = (amount: bigint): string => limitWords(refusal.asset, amount, decoded)
  const span = refusal.code === 'BUDGET_EXCEEDED_TX' ? 'one transaction' : 'a day'
  return new VaultError(
    refusal.code,
    `Expected at most ${words(refusal.limit)} for ${whose} in ${span}, got ${words(refusal.requested)}; ` +
      `${words(refusal.used)} are used.`,
    {
      details: {
        asset: refusal.asset,
        subject: subject.kind,
        limit: String(refusal.limit),
        used: String(refusal.used),
        requested: String(refusal.requested),
        resets_at: refusal.resetsAt,
      },
    },
  )
}

function limitWords(id: string, amount: bigint, decoded: Decoded | undefined): string {
  const effects = decoded?.effects ?? []
  const assets = effects.flatMap((effect) => ('asset' in effect ? [effect.asset] : []))
  const known = decoded === undefined ? assets : [decoded.fee.asset, ...assets]
  const asset = known.find((one) => one.id === id)
  if (asset !== undefined) return amountWords(asset, amount)
  const native = known.find((one) => feesId(one) === id)
  return native === undefined
    ? `${amount} smallest units of ${id}`
    : `${amountWords(native, amount)} of fees on ${native.chain}`
}
