import { BuyerRefusal } from '../../adapters/chains/buyer/buyer.ts'
import { isObject, own } from '../../core/x402/own.ts'
import type { PayOutcome } from './payReport.ts'
import type { VaultAnswer } from './vaultClient.ts'

/** The vault gave no payment. Its message is for the user and may quote the vault. */
export class VaultRefusal extends BuyerRefusal {
  readonly outcome: PayOutcome

  constructor(outcome: PayOutcome, message: string, options?: ErrorOptions) {
    super(message, options)
    this.outcome = outcome
  }
}

/** The code of a vault's error; empty when the answer is none of a vault. */
export function codeOf({ body }: VaultAnswer): string {
  const error = own(body, 'error')
  const code = isObject(error) ? own(error, 'code') : undefined
  return typeof code === 'string' ? code : ''
}

/** What an answer without a payment means for the run, in words. */
export function refusalOf(answer: VaultAnswer): VaultRefusal {
  const error = own(answer.body, 'error')
  const said = isObject(error) ? [own(error, 'message'), own(error, 'action')] : []
  const words = said.filter((text) => typeof text === 'string').join(' ')
  const code = codeOf(answer)
  if (code === '')
    return new VaultRefusal('vault_away', `What answers (${answer.status}) is no vault. Check --vault.`)
  const outcome = outcomeOf(code, answer.status)
  return new VaultRefusal(outcome, `${beginnings[outcome] ?? ''} ${words} Nothing was paid.`.trim())
}

const beginnings: Partial<Record<PayOutcome, string>> = {
  vault_refused: 'The vault refused:',
  over_budget: 'The budget is exceeded:',
  vault_locked: 'The vault does not sign now:',
  vault_unanswered: 'The owner did not answer in time:',
  vault_away: 'The vault is away:',
  refused: 'The vault did not build the payment:',
}

function outcomeOf(code: string, status: number): PayOutcome {
  if (code === 'BUDGET_EXCEEDED_TX' || code === 'BUDGET_EXCEEDED_DAILY') return 'over_budget'
  if (code === 'VAULT_LOCKED') return 'vault_locked'
  if (code === 'APPROVAL_EXPIRED') return 'vault_unanswered'
  if (code === 'APPROVAL_RESOLVED' || status === 401 || status === 403) return 'vault_refused'
  // The offer, or the chain that the vault asked about it, as with a key of one's own.
  if (code === 'CHAIN_UNAVAILABLE' || status < 429) return 'refused'
  return 'vault_away'
}
