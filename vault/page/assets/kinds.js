/** @import { ApprovalView } from '../../approvals/approval.ts' */
import { titleOf } from './words.js'

/**
 * How a kind of question looks: its name, its symbol and colour, and what stands before an amount and before the other side.
 *
 * @typedef {{ title: string, icon: string, tone: 'money' | 'right' | 'word' | 'data' | 'loss', lead?: string, party?: string }} Kind
 */

/** @type {Readonly<Record<ApprovalView['kind'], Kind>>} */
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

/** @param {Pick<ApprovalView, 'kind' | 'operation'>} approval @returns {Kind} */
export const kindOf = ({ kind, operation }) =>
  Object.hasOwn(kinds, kind)
    ? kinds[kind]
    : { title: titleOf(operation), icon: 'approvals', tone: 'data', party: 'to' }

/** In one line, for notifications, screen readers and beside the buttons. @param {ApprovalView} approval */
export const summaryOf = (approval) => {
  const { agent, amount, scope, opaque } = approval
  // An amount that nobody could check is not told where its warning does not stand.
  const what = opaque ? 'not understood' : amount === null ? scope : shortAmount(amount, approval)
  return `${agent}: ${kindOf(approval).title}${what === null ? '' : `, ${what}`}`
}

/** A number that fills lines says nothing in one; the card has it whole. @param {string} amount @param {ApprovalView} approval */
const shortAmount = (amount, { currency }) =>
  amount.length > 24 ? `a very large amount of ${currency}` : `${amount} ${currency ?? ''}`
