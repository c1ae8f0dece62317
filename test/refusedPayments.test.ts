import { x402Client, x402HTTPClient } from '@x402/core/client'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { wrapFetchWithPayment } from '@x402/fetch'
import t from 'tap'
import type { NetworkId } from '../core/domain/network.ts'
import type { PaymentRecord } from '../core/domain/payment.ts'
import { evmPaymentKey, evmPaymentKeyPrefix, solanaPaymentKey } from '../core/domain/payment.ts'
import { TollgateError } from '../core/errors/error.ts'
import type { Offer } from '../core/offers/offers.ts'
import { presentPayment } from '../core/offers/presentedPayment.ts'
import { encodeHeader } from '../core/x402/header.ts'
import { shortPlugins, startPaid } from './helpers/paid.ts'
import { pluginOf } from './helpers/plugins.ts'
import { until } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'
import {
  createScriptedSettler,
  type ScriptedSettler,
  scriptedPayment,
  scriptedPaymentV1,
  testAsset,
  testNetwork,
} from './helpers/settler.ts'

const payer = '0x2222222222222222222222222222222222222222'
const seller = await startSeller(t, 'hello')
const { gateway, settler } = await startPaid(t)
const { url } = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
const script = { verifyWith: settler.verifyWith, settleWith: settler.settleWith }
const hostile = `eip155:1"}<script>\r\nSet-Cookie: a=b ${'x'.repeat(5_000)}`

/** A payment that can be read, and why it is refused. */
interface Refused {
  readonly reason: string
  /** By the payment's nonce. */
  readonly payment?: (nonce: string) => string
  readonly script?: (settler: ScriptedSettler) => void
  /** What was sent for it. */
  readonly transaction?: string
  /** The payment names another network or asset, so its refusal names no payer. */
  readonly isForeign?: true
}

const accepting = (more: object, resource?: unknown) => (nonce: string) =>
  encodeHeader({
    x402Version: 2,
    accepted: { scheme: 'exact', network: testNetwork, asset: testAsset, ...more },
    payload: { payer, nonce, value: '100000' },
    resource,
  })

const verifying = (reason: string): Refused => ({
  reason,
  script: (s) => void (s.verifyWith = async () => ({ ok: false, reason, message: 'It fails.' })),
})

const refusals: Record<string, Refused> = {
  'too little': {
    reason: 'invalid_exact_evm_payload_authorization_value',
    payment: (nonce) => scriptedPayment(nonce, '99999'),
  },
  expired: {
    reason: 'invalid_exact_evm_payload_authorization_valid_before',
    payment: (nonce) => scriptedPayment(nonce, '100000', payer, { isLate: true }),
  },
  'no funds': verifying('invalid_exact_evm_insufficient_balance'),
  'a nonce that is used': verifying('invalid_exact_evm_nonce_already_used'),
  'a simulation that fails': verifying('invalid_exact_evm_transaction_simulation_failed'),
  'another network': {
    reason: 'invalid_network',
    payment: accepting({ network: 'eip155:1' }),
    isForeign: true,
  },
  'a hostile network': {
    reason: 'invalid_network',
    payment: accepting({ network: hostile }),
    isForeign: true,
  },
  'no network': { reason: 'invalid_network', payment: accepting({ network: '' }), isForeign: true },
  'another asset': { reason: 'invalid_network', payment: accepting({ asset: payer }), isForeign: true },
  'another scheme': { reason: 'invalid_network', payment: accepting({ scheme: 'upto' }), isForeign: true },
  'another server': {
    reason: 'invalid_resource',
    payment: accepting({}, { url: 'https://elsewhere.example/' }),
  },
  'a settlement that was not sent': {
    reason: 'simulation_failed',
    script: (s) =>
      void (s.settleWith = async () => ({ status: 'rejected', reason: 'simulation_failed', message: 'no' })),
  },
  'a settlement that failed': {
    reason: 'transaction_failed',
    transaction: '0xdead',
    script: (s) =>
      void (s.settleWith = async () => ({
        status: 'failed_final',
        reason: 'transaction_failed',
        message: 'no',
        transaction: '0xdead',
      })),
  },
}

const present = async (address: string, headers: Record<string, string>, method = 'GET') => {
  const response = await fetch(address, { headers, method })
  const text = await response.text()
  return { ...{ response, text }, body: text.startsWith('{') ? JSON.parse(text) : {} }
}

let count = 0
for (const [name, refused] of Object.entries(refusals)) {
  t.test(`a payment that is read and refused gets a fresh offer with its reason: ${name}`, async (t) => {
    Object.assign(settler, script)
    refused.script?.(settler)
    t.teardown(() => Object.assign(settler, script))
    const {
      reason,
      transaction = '',
      payment = (nonce: string) => scriptedPayment(nonce, '100000'),
    } = refused
    for (const below of ['', '/deeper?city=Oslo']) {
      const plain = decodePaymentRequiredHeader((await fetch(url + below)).headers.get('payment-required')!)
      const { response, text, body } = await present(url + below, {
        'payment-signature': payment(`n${count++}`),
      })
      t.equal(response.status, 402, text)
      t.equal(response.headers.get('cache-control'), 'no-store')
      const fresh = decodePaymentRequiredHeader(response.headers.get('payment-required')!)
      t.strictSame(fresh, { ...plain, error: reason }, 'the offer is that of a call without a payment')
      const { success, error, transaction: sent, ...offer } = body
      t.strictSame({ ...offer, error: reason }, fresh, 'and stands in the body')
      const { code, message, requestId, retryable } = error
      t.match(error, { code: 'invalid_payment', reason, message: /\S/ })
      t.strictSame([success, code, retryable], [false, 'invalid_payment', false])
      t.equal(requestId, response.headers.get('x-request-id'))
      t.equal(message.length < 500, true, 'nothing that came is reflected at length')
      const receipt = decodePaymentResponseHeader(response.headers.get('payment-response')!)
      t.match(receipt, {
        ...{ success: false, errorReason: reason, network: testNetwork, transaction },
        payer: refused.isForeign ? undefined : payer,
      })
      t.equal(sent ?? '', transaction)
      t.notOk(text.includes('<script>') || JSON.stringify(receipt).includes('<script>'))
    }
  })

  // Version 1 has no assets and no resource to say.
  if (refused.payment !== undefined) continue
  t.test(`version 1 has its own offer in the body: ${name}`, async (t) => {
    Object.assign(settler, script)
    refused.script?.(settler)
    t.teardown(() => Object.assign(settler, script))
    const plain = await (await fetch(`${url}?x402Version=1`)).json()
    const { response, body } = await present(url, { 'x-payment': scriptedPaymentV1(`n${count++}`, '100000') })
    t.equal(response.status, 402)
    t.equal(response.headers.get('payment-required'), null)
    const { code, message, requestId, ...offer } = body
    t.strictSame(offer, { ...(plain as object), error: refused.reason })
    t.strictSame([code, requestId], ['invalid_payment', response.headers.get('x-request-id')])
    t.match(message, /\S/)
    t.match(decodePaymentResponseHeader(response.headers.get('x-payment-response')!), {
      ...{ success: false, errorReason: refused.reason, network: 'base-sepolia', payer },
      transaction: refused.transaction ?? '',
    })
  })
}

t.test(
  'what is no payment is 400 without an offer, and its receipt names the network of the offer',
  async (t) => {
    const junk: Record<string, string> = {
      'not base64': 'junk',
      'not an envelope': encodeHeader({ x402Version: 2 }),
      'a payload of another form': scriptedPayment('n', 'all of it'),
    }
    for (const [name, header] of Object.entries(junk)) {
      const { response, body } = await present(url, { 'payment-signature': header })
      t.equal(response.status, 400, name)
      t.equal(response.headers.get('payment-required'), null)
      t.match(body, { success: false, error: { code: 'invalid_payment', reason: 'invalid_payload' } })
      t.notOk('accepts' in body)
      const receipt = decodePaymentResponseHeader(response.headers.get('payment-response')!)
      t.match(receipt, { success: false, errorReason: 'invalid_payload', network: testNetwork })
    }
  },
)

t.test(
  'HEAD is the 402 of a call without a payment, and its receipt names the network of the offer',
  async (t) => {
    const { response } = await present(url, { 'payment-signature': scriptedPayment('head', '1') }, 'HEAD')
    t.equal(response.status, 402)
    const plain = await fetch(url)
    t.equal(response.headers.get('payment-required'), plain.headers.get('payment-required'))
    t.match(decodePaymentResponseHeader(response.headers.get('payment-response')!), {
      ...{ success: false, errorReason: 'payment_required', network: testNetwork },
    })
  },
)

t.test('a refused payment takes nothing of the answer that others get', async (t) => {
  const before = await (await fetch(url)).text()
  await present(url, { 'payment-signature': scriptedPayment('one', '1') })
  t.equal(await (await fetch(url)).text(), before)
})

t.test(
  'while nothing can be paid, a refused payment is 400 with its reason, and no offer is empty',
  async (t) => {
    const closed = { ...createScriptedSettler(), minPriceAtomic: 1_000_000n }
    const { gateway } = await startPaid(t, { settlers: [closed] })
    const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const { response, body } = await present(link.url, { 'payment-signature': scriptedPayment('n', '1') })
    t.equal(response.status, 400)
    t.match(body, { error: { code: 'invalid_payment', reason: 'invalid_network' } })
    t.notOk('accepts' in body)
    t.match(decodePaymentResponseHeader(response.headers.get('payment-response')!), { network: testNetwork })
  },
)

t.test('the older body is that of a call without a payment; a refused one has the envelope', async (t) => {
  const plugins = [{ use: 'x402', with: { legacyBody: true } }, ...shortPlugins.slice(1)]
  const { gateway } = await startPaid(t, { plugins })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const { response, body } = await present(link.url, { 'payment-signature': scriptedPayment('n', '1') })
  t.equal(response.status, 402)
  t.match(body, { error: { code: 'invalid_payment' }, accepts: [{ amount: '100000' }] })
})

t.test(
  'the log and the counts have it as a refused payment, and not as a call that was told the price',
  async (t) => {
    const { gateway, call } = await startPaid(t)
    const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const headers = { 'payment-signature': scriptedPayment('n', '1') }
    t.equal((await call(link.url, { headers })).status, 402)
    t.match(gateway.gateway.calls.counts(), { refused: 1, asked: 0 })
  },
)

t.test('where no network is named, the receipt has the first that this link offers', async (t) => {
  const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
  const { gateway } = await startPaid(t, {
    settlers: [createScriptedSettler(), createScriptedSettler(solana)],
    payout: { base: null, solana: '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T' },
    plugins: [{ use: 'rate-limit', with: { paymentPoints: 2 } }, ...shortPlugins],
  })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10', methods: ['GET'] })
  for (const [status, header, method] of [
    [402, accepting({ network: 'eip155:1' })('n'), 'GET'],
    [400, 'junk', 'GET'],
    [429, 'junk', 'GET'],
    [405, 'junk', 'POST'],
  ] as const) {
    const { response } = await present(link.url, { 'payment-signature': header }, method)
    t.equal(response.status, status)
    t.match(decodePaymentResponseHeader(response.headers.get('payment-response')!), { network: solana })
  }
})

t.test('what a plugin of one’s own refuses is offered again, unless it was charged', async (t) => {
  const refuse = () => {
    throw new TollgateError('invalid_payment', 'Not from this wallet.', { reason: 'denied_by_policy' })
  }
  const policy = pluginOf('policy', { verify: refuse })
  const late = pluginOf('late', { forward: refuse })
  const { gateway, settler } = await startPaid(t, {
    plugins: [
      { use: 'policy', when: { links: ['demo/policy'] } },
      ...shortPlugins.slice(0, 2),
      { use: 'late', when: { links: ['demo/late'] } },
      ...shortPlugins.slice(2),
    ],
    extraPlugins: [policy, late],
  })
  const before = { url: seller.url, price: '0.10', settle: 'before' } as const
  const [early, charged] = [
    await gateway.addLink({ slug: 'policy', ...before }),
    await gateway.addLink({ slug: 'late', ...before }),
  ]
  const paying = (nonce: string) => ({ 'payment-signature': scriptedPayment(nonce, '100000') })
  const refused = await present(early.url, paying('a'))
  t.equal(refused.response.status, 402)
  t.match(refused.body, { error: { message: 'Not from this wallet.' }, accepts: [{ amount: '100000' }] })
  t.match(decodePaymentResponseHeader(refused.response.headers.get('payment-response')!), {
    ...{ success: false, errorReason: 'denied_by_policy', network: testNetwork, payer },
  })
  t.equal(settler.transfers.length, 0)
  const { response, body } = await present(charged.url, paying('b'))
  t.equal(settler.transfers.length, 1)
  t.not(response.status, 402, 'who was charged is not asked for another payment')
  t.notOk('accepts' in body)
  t.match(decodePaymentResponseHeader(response.headers.get('payment-response')!), { success: true })
})

t.test('what is not for sale now is not offered to a refused payment: 400 with its reason', async (t) => {
  const plugins = [{ use: 'health', with: { probe: false } }, ...shortPlugins]
  const { gateway, settler } = await startPaid(t, { plugins })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  settler.settleWith = async () => ({
    ...{ status: 'failed_final', reason: 'transaction_failed', message: 'no', transaction: '0xdead' },
  })
  const paying = (nonce: string, value = '100000') => ({
    'payment-signature': scriptedPayment(nonce, value),
  })
  t.equal((await present(link.url, paying('failed'))).response.status, 402)
  const refusedPlainly = async (headers: Record<string, string>, reason: string) => {
    const { response, body } = await present(link.url, headers)
    t.equal(response.status, 400)
    t.equal(response.headers.get('payment-required'), null)
    t.match(body, { success: false, error: { code: 'invalid_payment', reason, message: /\S/ } })
    t.notOk('accepts' in body)
    t.match(decodePaymentResponseHeader(response.headers.get('payment-response')!), {
      ...{ success: false, errorReason: reason, network: testNetwork, payer },
    })
  }
  const { links } = gateway.store
  const nowMs = Date.now()
  const paused = { sinceMs: nowMs, reason: 'down', cooldownUntilMs: nowMs + 900_000, permanent: false }
  await links.setSuspension(link.id, paused, nowMs)
  await until(async () => (await present(link.url, {})).response.status === 503)
  await refusedPlainly(paying('a', '1'), 'invalid_exact_evm_payload_authorization_value')
  await refusedPlainly(paying('failed'), 'transaction_failed')
  t.equal((await present(link.url, paying('b'))).response.status, 503)
  await links.deactivate(link.id, nowMs)
  await until(async () => (await present(link.url, {})).response.status === 404)
  await refusedPlainly(paying('failed'), 'transaction_failed')
  t.equal((await present(link.url, paying('a', '1'))).response.status, 404)
})

t.test(
  'a payment that may still be charged is never answered with an offer, even if its wallet no longer confirms the signature',
  async (t) => {
    const scripted = createScriptedSettler()
    let isConfirmed = true
    const refusal = { ok: false, reason: 'invalid_exact_evm_nonce_already_used', message: 'Used.' } as const
    // A contract wallet's signature is judged by the chain, or by a facilitator, at each call.
    const check: ScriptedSettler['check'] = async (payment, terms) => {
      if (!isConfirmed) return refusal
      const { nonce } = payment.payload['authorization'] as { nonce: string }
      const payload = { payer, nonce, value: terms.amount }
      const checked = await scripted.check({ ...payment, payload }, terms)
      if (!checked.ok) return checked
      const key = evmPaymentKey(evmPaymentKeyPrefix(testNetwork, testAsset), payer, nonce)
      return { ok: true, identity: { ...checked.identity, key } }
    }
    const { gateway } = await startPaid(t, { settlers: [{ ...scripted, check }] })
    const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const payload = (nonce: string) => ({ signature: '0x01', authorization: { from: payer, nonce } })
    const accepted = { scheme: 'exact', network: testNetwork, asset: testAsset }
    const paying = (nonce: string, version: 1 | 2) =>
      version === 2
        ? { 'payment-signature': encodeHeader({ x402Version: 2, accepted, payload: payload(nonce) }) }
        : {
            'x-payment': encodeHeader({
              ...{ x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload: payload(nonce) },
            }),
          }
    for (const version of [2, 1] as const) {
      isConfirmed = true
      scripted.settleWith = async () => undefined
      const delivered = paying(`delivered ${version}`, version)
      t.match(await present(link.url, delivered), { text: 'hello' })
      scripted.settleWith = async () => ({ status: 'pending', transaction: '0xdead', reason: 'no_receipt' })
      const pending = paying(`pending ${version}`, version)
      t.equal((await present(link.url, pending)).response.status, 503)
      isConfirmed = false
      const { response, body } = await present(link.url, pending)
      t.equal(response.status, 503)
      t.match(body, { error: { code: 'settlement_pending' } })
      t.notOk('accepts' in body)
      t.match(await present(link.url, delivered), { response: { status: 200 }, text: 'hello' })
      const unknown = await present(link.url, paying(`unknown ${version}`, version))
      t.equal(unknown.response.status, 402, 'a payment that was never claimed is refused as before')
      t.match(unknown.body, { error: version === 2 ? { reason: refusal.reason } : refusal.reason })
    }
  },
)

t.test('@x402/fetch signs once, and hands its caller the refusal, which it can sign again for', async (t) => {
  const { gateway, settler } = await startPaid(t)
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  let value = '1'
  let signed = 0
  const scheme = {
    scheme: 'exact',
    createPaymentPayload: async (x402Version: number) => ({
      x402Version,
      payload: { payer, nonce: `n${signed++}`, value },
    }),
  }
  const client = new x402HTTPClient(
    x402Client.fromConfig({ schemes: [{ network: testNetwork, client: scheme }], spendControls: false }),
  )
  const buy = wrapFetchWithPayment(fetch, client)
  const refused = await buy(link.url)
  t.equal(refused.status, 402)
  const body = await refused.json()
  t.match(body, { error: { code: 'invalid_payment', message: /\S/ }, accepts: [{ amount: '100000' }] })
  t.equal(signed, 1)
  const offer = client.getPaymentRequiredResponse((name) => refused.headers.get(name), body)
  t.equal(offer.error, 'invalid_exact_evm_payload_authorization_value')
  value = '100000'
  const headers = client.encodePaymentSignatureHeader(await client.createPaymentPayload(offer))
  t.equal((await fetch(link.url, { headers })).status, 200, 'the fresh offer can be paid')
  t.strictSame(settler.transfers, ['n1'])
})

t.test('a payment of version 1 that was claimed is found after version 1 was switched off', async (t) => {
  const nonce = `0x${'11'.repeat(32)}`
  const payload = { signature: '0x01', authorization: { from: payer, nonce } }
  const header = encodeHeader({ x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload })
  const record = { payload: JSON.stringify({ payload }), scheme: 'exact', amountAtomic: 100_000n }
  const taken = (found?: object) => ({
    offers: [],
    payments: { find: async () => found as PaymentRecord | undefined },
    acceptV1: false,
    publicUrl: 'http://gateway.test',
    host: () => undefined,
  })
  t.match(await presentPayment(header, 1, taken(record)), {
    identity: record,
    unclaimable: { reason: 'invalid_x402_version' },
  })
  await t.rejects(presentPayment(header, 1, taken()) as Promise<unknown>, { code: 'invalid_payment' })
})

t.test(
  'a bare transaction that was claimed is found on whichever Solana network it was claimed',
  async (t) => {
    const keys = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
    const message = Buffer.concat([
      ...[Buffer.from([1, 0, 1, 2]), ...keys, new Uint8Array(32), Buffer.from([1, 1, 0, 0])],
    ])
    const transaction = Buffer.concat([Buffer.from([1]), new Uint8Array(64), message]).toString('base64')
    const networks = [
      'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
      'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
      'solana:11111111111111111111111111111111',
    ] as const
    const refusal = {
      ok: false,
      reason: 'invalid_exact_svm_mint_mismatch',
      message: 'Not the mint.',
    } as const
    const offers = networks.map((network) => {
      const settler = { ...createScriptedSettler(network), check: () => refusal }
      const terms = { scheme: 'exact', network, asset: 'mint', payTo: 'seller', amount: '1' }
      return {
        settler,
        terms: { ...terms, maxTimeoutSeconds: 60, extra: {} },
        isClosed: false,
      } as unknown as Offer
    })
    const record = {
      payload: JSON.stringify({ payload: { transaction } }),
      scheme: 'exact',
      amountAtomic: 1n,
    }
    const present = async (claimedOn?: NetworkId) => {
      const key = claimedOn && solanaPaymentKey(claimedOn, message)
      return presentPayment(transaction, 1, {
        ...{ offers, acceptV1: true, publicUrl: 'http://gateway.test', host: () => undefined },
        payments: { find: async (asked) => (asked === key ? (record as PaymentRecord) : undefined) },
      })
    }
    for (const network of networks)
      t.match(await present(network), { identity: record, unclaimable: { reason: refusal.reason } }, network)
    await t.rejects(present(), { code: 'invalid_payment', reason: refusal.reason })
  },
)
