import { chainTitle, shortHash } from '../words.ts'

/** A log entry, as the API returns it. */
export interface Entry {
  readonly timestamp: string
  readonly agent: string
  readonly action: string
  readonly currency: string
  readonly status: string
  readonly claimed?: string | null
  readonly found?: string | null
  readonly details: Readonly<Record<string, string | null>> & { readonly seq: number }
}

/** Title of each action in the log. */
export const actions: Readonly<Record<string, string>> = {
  SIGN: 'Sign a transaction',
  SIGN_MESSAGE: 'Sign a message',
  SIGN_TYPED_DATA: 'Sign typed data',
  READ: 'Read a value',
  WRITE: 'Store a value',
  DELETE: 'Delete a value',
  CALL: 'Call an API',
  ADDRESS: 'Show an address',
  UNLOCK: 'Unlock the vault',
  LOCK: 'Lock the vault',
  PAIR: 'Pair a machine',
  REVOKE: 'Revoke access',
  CONFIG: 'Change a setting',
  GIVE_BACK: 'Give back to the budget',
}

export const outcomes: Readonly<Record<string, string>> = {
  PENDING: 'You were asked',
  APPROVED: 'Approved',
  AUTO_APPROVED: 'Allowed by rules',
  DENIED: 'Denied',
  EXPIRED: 'Expired',
  CANCELED: 'Canceled',
  FAILED: 'Failed',
}

/** Why a request was refused or failed. Other codes are shown unchanged. */
const codes: Readonly<Record<string, string>> = {
  APPROVAL_DENIED: 'You or a rule refused the request.',
  APPROVAL_EXPIRED: 'You did not answer in time.',
  BAD_PASSWORD: 'The password was wrong.',
  BUDGET_EXCEEDED_DAILY: 'The amount exceeds what is left of the daily limit.',
  BUDGET_EXCEEDED_TX: 'The amount is above the limit for one transaction.',
  CHAIN_MISMATCH: 'The transaction is for a different chain than the agent claimed.',
  CHAIN_UNAVAILABLE: 'The chain could not be reached.',
  FEE_EXCESSIVE: 'The fee is above what the rules allow.',
  INTERNAL_ERROR: 'The vault had an internal error.',
  INVALID_TX: 'The transaction could not be decoded.',
  NOT_FOUND: 'Nothing has this name.',
  OUTCOME_UNKNOWN: 'The request was sent, but no response came. The API may have processed it.',
  RATE_LIMIT_EXCEEDED: 'The agent sent too many requests.',
  SCOPE_DENIED: 'The agent has no grant for this request.',
  TX_MISMATCH: 'The transaction does not do what the agent claimed.',
  TX_OPAQUE: 'The vault could not decode the whole request.',
  UNKNOWN_SCOPE: 'This scope does not exist.',
  UPSTREAM_ERROR: 'The API that was called returned an error.',
  UPSTREAM_TIMEOUT: 'The API that was called did not respond in time.',
  VALIDATION_ERROR: 'The request did not have the expected form.',
  VAULT_LOCKED: 'The vault was locked.',
}

const wordsFor = (table: Readonly<Record<string, string>>, name: string): string =>
  Object.hasOwn(table, name) ? table[name]! : sentence(name)

/** `NEW_THING` → `New thing`. */
function sentence(name: string): string {
  const words = name.toLowerCase().replaceAll('_', ' ')
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}

/** One entry of the log in words. */
export function wordsOfEntry({ agent, action, currency, status, claimed, found, details }: Entry) {
  const { amount, scope, recipient, chain, code, note, decision_hash } = details
  const isGivenBack = action === 'GIVE_BACK'
  return {
    who: agent,
    what: wordsFor(actions, action),
    about: amount == null ? (scope ?? '') : `${amount} ${currency}`,
    // Actions of the owner and the vault need no approval.
    outcome:
      isGivenBack || (status === 'APPROVED' && /^(owner|vault)$/.test(agent))
        ? 'Done'
        : wordsFor(outcomes, status),
    why: code == null ? '' : wordsFor(codes, code),
    more: [
      recipient == null ? '' : `${isGivenBack ? 'for a payment to' : 'to'} ${recipient}`,
      chain == null ? '' : `on ${chainTitle(chain)}`,
      amount == null || scope == null ? '' : scope,
      note ?? '',
      decision_hash == null ? '' : `decision ${shortHash(decision_hash).slice(0, 9)}`,
    ].filter((text) => text !== ''),
    claimed: claimed ?? null,
    found: found ?? null,
  }
}

/** Whether an entry has all of these words, in any order and case. */
export function hasText(entry: Entry, text: string): boolean {
  const { action, status, details } = entry
  const parts = [...Object.values(wordsOfEntry(entry)).flat(), ...Object.values(details), action, status]
  const all = parts.join(' ').toLowerCase()
  const words = text.toLowerCase().split(/\s+/)
  return words.every((word) => all.includes(word))
}
