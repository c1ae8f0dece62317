/** @import { ApprovalView } from '../../approvals/approval.ts' */
import { titleOf } from './words.js'

/** Something that is signed, sent or stored, whole. `bytes` and `sha256` are of the original, `text` shows what is invisible. */
/** @typedef {{ title: string, text: string, format: 'text' | 'json' | 'hex', bytes: number, sha256: string }} Part */
/** @typedef {ApprovalView & { kind?: string, parts?: readonly Part[], second_word?: string | null }} Shown */

/**
 * How a kind of question looks: its name, its symbol and colour, and what stands before an amount and before the other side.
 *
 * @typedef {{ title: string, icon: string, tone: 'money' | 'right' | 'word' | 'data' | 'loss', lead?: string, party?: string }} Kind
 */

/** @type {Readonly<Record<string, Kind>>} */
const kinds = {
  transfer: { title: 'Send money', icon: 'send', tone: 'money', lead: 'Sends', party: 'to' },
  payment: { title: 'Pay for an API call', icon: 'coin', tone: 'money', lead: 'Pays', party: 'to' },
  allowance: {
    title: 'Let somebody take money',
    icon: 'key',
    tone: 'right',
    lead: 'Gives the right to take up to',
    party: 'taken by',
  },
  transaction: { title: 'Sign a transaction', icon: 'pen', tone: 'data', party: 'to' },
  sign_in: { title: 'Sign in to a site', icon: 'door', tone: 'word' },
  message: { title: 'Sign a message', icon: 'pen', tone: 'word' },
  typed_data: { title: 'Sign typed data', icon: 'pen', tone: 'word', party: 'for' },
  read: { title: 'Read a value', icon: 'eye', tone: 'data' },
  write: { title: 'Store a value', icon: 'save', tone: 'data' },
  delete: { title: 'Delete a value', icon: 'bin', tone: 'loss' },
  call: { title: 'Call an API with a credential', icon: 'call', tone: 'data' },
}

/** @param {Pick<Shown, 'kind' | 'operation'>} approval @returns {Kind} */
export const kindOf = ({ kind = '', operation }) =>
  Object.hasOwn(kinds, kind)
    ? /** @type {Kind} */ (kinds[kind])
    : { title: titleOf(operation), icon: 'approvals', tone: 'data', party: 'to' }

/** In one line, for notifications, screen readers and beside the buttons. @param {Shown} approval */
export const summaryOf = (approval) => {
  const { agent, amount, currency, scope } = approval
  // A number that fills lines says nothing in one; the card has it whole.
  const what =
    amount === null
      ? scope
      : amount.length > 24
        ? `a very large amount of ${currency}`
        : `${amount} ${currency ?? ''}`
  return `${agent}: ${kindOf(approval).title}${what === null ? '' : `, ${what}`}`
}

/**
 * What must be typed before such a question can be approved; null where a click is enough. The vault demands it too.
 *
 * @param {Pick<Shown, 'second_word' | 'opaque'>} approval
 */
export const secondWordOf = ({ second_word = null, opaque }) => second_word ?? (opaque ? 'unread' : null)
