import type { IconName } from '../../../../web/components/button.ts'
import type { ApprovalView } from '../../../approvals/approval.ts'
import { titleOf } from '../words.ts'

/** The look of a kind of approval: title, icon and color, and the words before an amount and before the other party. */
interface Kind {
  readonly title: string
  readonly icon: IconName
  readonly tone: 'money' | 'right' | 'word' | 'data' | 'loss'
  readonly lead?: string
  readonly party?: string
}

const kinds: Readonly<Record<ApprovalView['kind'], Kind>> = {
  transfer: { title: 'Send money', icon: 'send', tone: 'money', lead: 'Sends', party: 'to' },
  payment: { title: 'Pay for an API call', icon: 'coin', tone: 'money', lead: 'Pays', party: 'to' },
  payment_up_to: {
    title: 'Pay for an API call by use',
    icon: 'coin',
    tone: 'money',
    lead: 'Pays at most',
    party: 'to',
  },
  deposit: {
    title: 'Deposit into a payment channel',
    icon: 'coin',
    tone: 'money',
    lead: 'Deposits, for the agent to spend without asking',
    party: 'to',
  },
  allowance: {
    title: 'Let another account take money',
    icon: 'key',
    tone: 'right',
    lead: 'Gives the right to take up to',
    party: 'taken by',
  },
  transaction: { title: 'Sign a transaction', icon: 'pen', tone: 'data', party: 'to' },
  sign_in: { title: 'Sign in to a site', icon: 'enter', tone: 'word' },
  message: { title: 'Sign a message', icon: 'pen', tone: 'word' },
  typed_data: { title: 'Sign typed data', icon: 'pen', tone: 'word', party: 'for' },
  read: { title: 'Read a value', icon: 'eye', tone: 'data' },
  write: { title: 'Store a value', icon: 'save', tone: 'data' },
  delete: { title: 'Delete a value', icon: 'bin', tone: 'loss' },
  call: { title: 'Call an API with a credential', icon: 'call', tone: 'data' },
}

export const kindOf = ({ kind, operation }: Pick<ApprovalView, 'kind' | 'operation'>): Kind =>
  Object.hasOwn(kinds, kind)
    ? kinds[kind]
    : { title: titleOf(operation), icon: 'shield', tone: 'data', party: 'to' }

/** An approval in one line, for notifications, for screen readers and beside the buttons. */
export function summaryOf(approval: ApprovalView): string {
  const { agent, amount, currency, scope, opaque } = approval
  // An unverified amount is left out, because it needs its warning. A long amount does not fit into the line.
  const money =
    amount !== null && amount.length > 24
      ? `a very large amount of ${currency}`
      : `${amount} ${currency ?? ''}`
  const what = opaque ? 'not fully decoded' : amount === null ? scope : money
  return `${agent}: ${kindOf(approval).title}${what === null ? '' : `, ${what}`}`
}
