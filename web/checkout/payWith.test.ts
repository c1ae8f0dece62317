import t, { type Test } from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import type { EvmWallet } from '../wallets/wallet.ts'
import { payWith } from './payWith.ts'
import { sessionApi } from './sessionApi.ts'
import type { CheckoutOffer } from './state.ts'

const asset = builtInAssets.find(({ network }) => network === 'eip155:84532')!
const payTo = `0x${'5'.repeat(40)}`
const offer: CheckoutOffer = { network: asset.network, asset, amount: '1', amountText: '0.000001', payTo }
const entry = {
  scheme: 'exact',
  network: asset.network,
  asset: asset.address,
  amount: '1',
  payTo,
  maxTimeoutSeconds: 60,
  extra: {},
}
const buyer = `0x${'b'.repeat(40)}`
const over = (body: unknown, status: number, headers: Record<string, string> = {}) =>
  new Response(typeof body === 'string' ? body : JSON.stringify(body), { status, headers })
const paid = { data: { status: 'confirmed' } }

/** Pays with a wallet against these responses in order, and returns the outcome. */
async function pay(
  t: Test,
  answers: readonly (() => Response)[],
  responseOf: (method: string) => unknown = () => undefined,
  isOver = () => false,
) {
  const sent: string[] = []
  const left = [...answers]
  const { fetch, setTimeout } = globalThis
  t.teardown(() => Object.assign(globalThis, { fetch, setTimeout }))
  Object.assign(globalThis, {
    setTimeout: (run: () => void) => setTimeout(run, 0),
    async fetch(_url: string, { headers }: { headers: Record<string, string> }) {
      const payment = headers['payment-signature']
      if (payment === undefined) return over({ x402Version: 2, accepts: [entry] }, 402)
      sent.push(payment)
      return (left.length > 1 ? left.shift()! : left[0]!)()
    },
  })
  const provider = {
    request: ({ method }: { method: string }) => {
      const answer = responseOf(method)
      if (answer !== undefined) return answer as Promise<unknown>
      const usual: Record<string, unknown> = {
        eth_requestAccounts: [buyer],
        eth_chainId: '0x14a34',
        eth_call: `0x${'f'.repeat(64)}`,
        eth_signTypedData_v4: `0x${'1'.repeat(130)}`,
      }
      return Promise.resolve(usual[method])
    },
  }
  const wallet: EvmWallet = { id: 'w', name: 'W', icon: undefined, family: 'eip155', provider }
  const notified: string[] = []
  const phases: string[] = []
  const api = sessionApi('s', 'secret')
  const end = await payWith(
    wallet,
    offer,
    api,
    ({ at }) => phases.push(at),
    (payer) => notified.push(payer),
    isOver,
  )
  return { end, sent, notified, phases }
}

t.test('a charge that the seller owes back is told as one', async (t) => {
  // As the gateway sends it: only the receipt has the reason.
  const receipt = encodeHeader({ success: false, errorReason: 'charged_refund_owed', transaction: '0x1' })
  const error = { code: 'payment_already_used', message: 'It was charged when its session had ended.' }
  const { end } = await pay(t, [() => over({ error }, 409, { 'payment-response': receipt })])
  t.match(end, { kind: 'owed', message: /charged/ })
})

t.test('a charge that was paid back is told as one, and not as owed', async (t) => {
  const receipt = encodeHeader({ success: false, errorReason: 'refunded', transaction: '0x1' })
  const error = { code: 'payment_already_used', message: 'It was charged, and the seller has paid it back.' }
  const { end, sent } = await pay(t, [() => over({ error }, 409, { 'payment-response': receipt })])
  t.match(end, { kind: 'refunded', message: /paid it back/ })
  t.equal(sent.length, 1)
})

t.test('only the gateway says that nothing was charged', async (t) => {
  for (const status of [401, 403, 404, 407, 409, 413, 451]) {
    for (const body of [
      '<h1>Log in to the Wi-Fi</h1>',
      '{}',
      'null',
      '{"error":null}',
      '[]',
      '{"error":7}',
    ]) {
      const { end, sent, notified } = await pay(t, [
        () => {
          throw new TypeError('network')
        },
        () => over(body, status),
        () => over(paid, 200),
      ])
      t.match(end, { status: 'confirmed' }, `${status} ${body}`)
      t.equal(sent.length, 3)
      t.equal(new Set(sent).size, 1, 'the same payment each time')
      t.strictSame(notified, [buyer])
    }
  }
  const refused = await pay(t, [() => over({ error: { code: 'invalid_payment', message: 'No.' } }, 402)])
  t.match(refused.end, { kind: 'refused', message: 'No.' })
  const error = { code: 'invalid_payment', message: 'Sign the EIP-712 domain in extra.' }
  const receipt = encodeHeader({
    success: false,
    errorReason: 'invalid_exact_evm_signature',
    transaction: '',
  })
  const other = await pay(t, [() => over({ error }, 402, { 'payment-response': receipt })])
  t.match(other.end, { kind: 'refused', message: /choose the account/ }, 'in words for whoever has a wallet')
  const words = /has not been used on this network yet.*choose another wallet/
  const unknownFactory = { success: false, errorReason: 'eip6492_factory_not_allowed', transaction: '' }
  const notMade = { 'payment-response': encodeHeader(unknownFactory) }
  t.match((await pay(t, [() => over({ error }, 402, notMade)])).end, { kind: 'refused', message: words })
  const undeployed = await pay(t, [() => over({ error }, 402, { 'payment-response': receipt })], (method) =>
    method === 'eth_signTypedData_v4' ? `0x${'1'.repeat(64)}${'6492'.repeat(16)}` : undefined,
  )
  t.match(undeployed.end, { kind: 'refused', message: words }, 'whatever its factory did not do')
  for (const reason of ['insufficient_funds', 'invalid_exact_evm_insufficient_balance']) {
    const poor = {
      'payment-response': encodeHeader({ success: false, errorReason: reason, transaction: '' }),
    }
    const fresh = {
      x402Version: 2,
      accepts: [entry],
      error: { code: 'invalid_payment', message: 'It has 1.' },
    }
    const { end, sent } = await pay(t, [() => over(fresh, 402, poor)])
    t.match(end, { kind: 'too_little', message: /has less than the price/ })
    t.equal(sent.length, 1, 'a fresh offer is not signed by itself')
  }
})

t.test(
  'a payment that nobody has answered is sent until somebody does, and so long nobody says that it is there',
  async (t) => {
    const lost = () => {
      throw new TypeError('network')
    }
    const { end, sent, phases } = await pay(t, [...Array(40).fill(lost), () => over(paid, 200)])
    t.match(end, { status: 'confirmed' })
    t.equal(sent.length, 41)
    t.equal(new Set(sent).size, 1, 'the same one')
    t.strictSame([...new Set(phases)].slice(-2), ['sending', 'unheard'])
    const known = { error: { code: 'settlement_pending', message: 'It was sent.' } }
    const received = await pay(t, [lost, () => over(known, 503), () => over(paid, 200)])
    t.strictSame(received.phases.slice(-3), ['sending', 'unheard', 'confirming'], 'the gateway has it')
  },
)

t.test('what a wallet signs when the session is over is not sent, and nobody says that it was', async (t) => {
  const { end, sent, notified } = await pay(
    t,
    [() => over(paid, 200)],
    () => undefined,
    () => true,
  )
  t.equal(end, 'elsewhere')
  t.strictSame([sent, notified], [[], []])
})

t.test('a wallet that answers nonsense is named, not the gateway', async (t) => {
  const odd: Record<string, unknown> = {
    null: Promise.resolve(null),
    object: Promise.resolve({}),
    number: Promise.resolve(7),
    text: Promise.resolve('0x'),
    none: Promise.resolve([]),
    address: Promise.resolve(['0x1']),
    now: [buyer],
    thrown: Promise.reject({ odd: true }),
    nothing: Promise.reject(null),
  }
  for (const [name, answer] of Object.entries(odd)) {
    for (const latestOffer of ['eth_requestAccounts', 'eth_chainId', 'eth_signTypedData_v4']) {
      const { end, sent } = await pay(t, [() => over(paid, 200)], (method) =>
        method === latestOffer ? answer : undefined,
      )
      if (name === 'now' && latestOffer === 'eth_requestAccounts') continue
      t.match(end, { kind: /./, message: /\bW\b/ }, `${latestOffer}: ${name}`)
      t.strictSame(sent, [], 'nothing is sent')
    }
  }
  const thrower = () => {
    throw new Error('broken')
  }
  t.match((await pay(t, [() => over(paid, 200)], thrower)).end, { message: /W failed: broken/ })
})
