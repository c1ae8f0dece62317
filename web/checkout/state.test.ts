import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { html } from '../html.ts'
import { renderPage } from '../render/renderPage.ts'
import { noActions } from './actions.ts'
import { Stopped } from './endings.ts'
import {
  type CheckoutOffer,
  type CheckoutSession,
  type CheckoutState,
  chosenOffer,
  completedOf,
  type Fault,
  payableOffer,
  screenOf,
} from './state.ts'

const session: CheckoutSession = {
  id: 's',
  status: 'open',
  amount: '1',
  currency: 'USDC',
  purchaseId: null,
  txHash: null,
  chain: null,
  buyerWallet: null,
  merchant: { username: 'a', displayName: 'A' },
  expiresAt: '',
  processing: false,
  item: { title: '', description: '', amount: '1' },
  successUrl: null,
  cancelUrl: null,
  clientReferenceId: null,
  allowedOrigin: null,
  link: null,
}
const [asset] = builtInAssets
const offers: CheckoutOffer[] = [
  { network: asset!.network, asset: asset!, amount: '1', amountText: '0.000001', payTo: '0x' },
]
const stateOf = (part: Partial<CheckoutState> = {}, more: Partial<CheckoutSession> = {}): CheckoutState => ({
  loadedAs: 'open',
  phase: { at: 'choosing' },
  chosen: 0,
  selected: 0,
  wallets: [],
  sentBy: null,
  isCanceling: false,
  isPopup: false,
  session: { ...session, ...more },
  ...part,
})
const stopped = { at: 'stopped', fault: { kind: 'declined', message: '' } } as const

t.test('what has ended is shown as it ended, whatever the page was doing', async (t) => {
  for (const phase of [stopped, { at: 'sending' }, { at: 'choosing' }] as const) {
    for (const status of ['expired', 'canceled', 'failed'] as const)
      t.equal(screenOf(stateOf({ phase, sentBy: 'Me' }, { status }), offers), status)
    t.equal(
      screenOf(stateOf({ phase, sentBy: 'Me' }, { status: 'confirmed', buyerWallet: 'me' }), offers),
      'paid',
    )
    const others = { status: 'confirmed', buyerWallet: 'you' } as const
    t.equal(screenOf(stateOf({ phase, sentBy: 'Me' }, others), offers), 'paid_elsewhere')
    t.equal(screenOf(stateOf({ phase }, { status: 'confirmed' }), offers), 'paid_elsewhere')
  }
  t.equal(screenOf(stateOf({ loadedAs: 'confirmed' }, { status: 'confirmed' }), offers), 'paid')
})

t.test('what the seller owes or has paid back is said even when the session has ended', async (t) => {
  for (const kind of ['owed', 'refunded'] as const) {
    const phase = { at: 'stopped', fault: { kind, message: '' } } as const
    for (const status of ['open', 'expired', 'canceled', 'failed', 'confirmed'] as const)
      t.equal(screenOf(stateOf({ phase, sentBy: 'Me' }, { status }), offers), 'stopped', status)
  }
})

t.test('what was charged is never shown as uncharged, and only what is owed as owed', async (t) => {
  const shown = (kind: Fault['kind']) => {
    const state = stateOf({ phase: { at: 'stopped', fault: { kind, message: 'Because.' } } })
    const more = {
      sum: { value: '1', currency: 'USDC' },
      nowMs: 0,
      lifetimeMs: 1,
      checkoutUrl: '',
      qr: { path: '', size: 1 },
      command: '',
    }
    const body = html`<${Stopped} ...${{ session, offers, state, actions: noActions, ...more }} />`
    return renderPage({ name: 'checkout', title: '', description: '', body }).html
  }
  for (const kind of ['owed', 'refunded'] as const) {
    t.match(shown(kind), 'Because.')
    t.notMatch(shown(kind), /Nothing was charged|Try again|Cancel payment/, kind)
  }
  t.match(shown('owed'), /<h2[^>]*>The seller owes you a refund</)
  t.match(shown('refunded'), /<h2[^>]*>The seller has refunded you</)
  t.notMatch(shown('refunded'), /owes|Do not pay again/)
  t.match(shown('refused'), 'Nothing was charged.')
})

t.test('while somebody pays, nobody is offered to pay again', async (t) => {
  t.equal(screenOf(stateOf({}, { processing: true }), offers), 'progress')
  t.equal(screenOf(stateOf({ phase: { at: 'confirming' } }), offers), 'progress')
  t.equal(screenOf(stateOf({ phase: stopped }), offers), 'stopped')
  t.equal(screenOf(stateOf(), offers), 'pay')
  t.equal(screenOf(stateOf(), []), 'unpayable')
})

t.test('a shop is told the fields of the widget and no others', async (t) => {
  t.strictSame(Object.keys(completedOf(session)), [
    ...['sessionId', 'purchaseId', 'txHash', 'chain', 'amount', 'clientReferenceId'],
  ])
})

t.test(
  'the first offer that a wallet of the browser can pay is chosen, and none before one is there',
  async (t) => {
    const onSolana = { ...offers[0]!, network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' }
    const both = [...offers, onSolana]
    t.equal(payableOffer(both, [{ family: 'solana' }]), 1)
    t.equal(payableOffer(both, [{ family: 'solana' }, { family: 'eip155' }]), 0)
    t.equal(payableOffer(both, []), null)
    t.equal(payableOffer(offers, [{ family: 'solana' }]), null)
    t.equal(chosenOffer(stateOf({ chosen: null }), both), both[0])
    t.equal(chosenOffer(stateOf({ chosen: 1 }), both), onSolana)
  },
)
