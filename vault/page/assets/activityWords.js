import { chainTitle, shortHash } from './words.js'

/** @typedef {{ timestamp: string, agent: string, action: string, currency: string, status: string, claimed?: string | null, found?: string | null, details: Record<string, string | null> & { seq: number } }} Entry */

/** What each action of the log is called. @type {Readonly<Record<string, string>>} */
export const actions = {
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
  REVOKE: 'Take an access away',
  CONFIG: 'Change a setting',
}

/** @type {Readonly<Record<string, string>>} */
export const outcomes = {
  PENDING: 'You were asked',
  APPROVED: 'Approved',
  AUTO_APPROVED: 'Allowed by rules',
  DENIED: 'Denied',
  EXPIRED: 'Not answered in time',
  CANCELED: 'Taken back',
  FAILED: 'Failed',
}

/** Why something was refused or failed; what is not here is told by its code. @type {Readonly<Record<string, string>>} */
const codes = {
  APPROVAL_DENIED: 'You or a rule refused it.',
  APPROVAL_EXPIRED: 'Nobody answered in time.',
  BAD_PASSWORD: 'The password was wrong.',
  BUDGET_EXCEEDED_DAILY: 'It does not fit into what is left for the day.',
  BUDGET_EXCEEDED_TX: 'It is above the limit for one transaction.',
  CHAIN_MISMATCH: 'The transaction is for another chain than the agent said.',
  CHAIN_UNAVAILABLE: 'The chain could not be asked.',
  FEE_EXCESSIVE: 'The fee is above what the rules allow.',
  INTERNAL_ERROR: 'Something went wrong in the vault.',
  INVALID_TX: 'The transaction could not be read.',
  NOT_FOUND: 'There is nothing of this name.',
  OUTCOME_UNKNOWN: 'It was sent, and may have been performed.',
  RATE_LIMIT_EXCEEDED: 'It asked too often.',
  SCOPE_DENIED: 'It has no grant for that.',
  TX_MISMATCH: 'The transaction does something else than the agent said.',
  TX_OPAQUE: 'Not everything that it does could be read.',
  UNKNOWN_SCOPE: 'There is no such scope.',
  UPSTREAM_ERROR: 'The API that was called did not answer well.',
  UPSTREAM_TIMEOUT: 'The API that was called did not answer in time.',
  VALIDATION_ERROR: 'The request did not have the expected form.',
  VAULT_LOCKED: 'The vault was locked.',
}

/** @param {Readonly<Record<string, string>>} table @param {string} name */
const wordsFor = (table, name) =>
  Object.hasOwn(table, name) ? /** @type {string} */ (table[name]) : sentence(name)

/** `NEW_THING` → `New thing`. @param {string} name */
function sentence(name) {
  const words = name.toLowerCase().replaceAll('_', ' ')
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}

/**
 * One entry of the log in words.
 *
 * @param {Entry} entry
 */
export function wordsOfEntry({ agent, action, currency, status, claimed, found, details }) {
  const { amount, scope, recipient, chain, code, note, decision_hash } = details
  return {
    who: agent,
    what: wordsFor(actions, action),
    about: amount == null ? (scope ?? '') : `${amount} ${currency}`,
    // The owner and the vault ask nobody.
    outcome: status === 'APPROVED' && /^(owner|vault)$/.test(agent) ? 'Done' : wordsFor(outcomes, status),
    why: code == null ? '' : wordsFor(codes, code),
    more: [
      recipient == null ? '' : `to ${recipient}`,
      chain == null ? '' : `on ${chainTitle(chain)}`,
      amount == null || scope == null ? '' : scope,
      note ?? '',
      decision_hash == null ? '' : `decision ${shortHash(decision_hash).slice(0, 9)}`,
    ].filter((text) => text !== ''),
    claimed: claimed ?? null,
    found: found ?? null,
  }
}

/** Whether an entry has all of these words, in whatever place and case. @param {Entry} entry @param {string} text */
export function hasText(entry, text) {
  const { details } = entry
  const all = [
    ...Object.values(wordsOfEntry(entry)).flat(),
    ...Object.values(details),
    entry.action,
    entry.status,
  ]
    .join(' ')
    .toLowerCase()
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word))
}
