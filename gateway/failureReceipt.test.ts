import { decodePaymentResponseHeader } from '@x402/core/http'
import t from 'tap'
import { TollgateError } from '../core/errors/error.ts'
import { gatewayPlugin, type Hook } from '../core/plugin/gateway.ts'
import { encodeHeader } from '../core/x402/header.ts'
import { startGateway, type TestGatewayOptions } from '../test/helpers/gateway.ts'
import { shortPlugins } from '../test/helpers/paid.ts'
import { noOptions } from '../test/helpers/plugins.ts'
import { until } from '../test/helpers/rawHttp.ts'
import { startSeller } from '../test/helpers/sellers.ts'
import {
  createScriptedSettler,
  type ScriptedSettler,
  scriptedPayment,
  scriptedPaymentV1,
  testNetwork,
} from '../test/helpers/settler.ts'

const payer = '0x2222222222222222222222222222222222222222'
const seller = await startSeller(t, 'hello')
const good = scriptedPayment('n', '100000')
const transaction = /^0x[0-9a-f]{64}$/

interface Case {
  readonly payment?: string
  readonly init?: RequestInit
  readonly path?: string
  readonly settler?: (settler: ScriptedSettler) => void
  readonly options?: TestGatewayOptions
  readonly suspended?: true
  /** Calls before the one that is checked. */
  readonly before?: readonly string[]
  readonly status: number
  readonly receipt: object
}

const known = { network: testNetwork, payer, amount: '100000' }
const away = () => Promise.reject(new TollgateError('store_unavailable'))
/** A database that is down for the claim, or for a change that leads to this state. */
const storeFails = (to: 'claimed' | 'settling' | 'settled'): TestGatewayOptions => ({
  adaptLedger: (ledger) => ({
    ...ledger,
    claim: (request) => (to === 'claimed' ? away() : ledger.claim(request)),
    apply: (change) => (change.to === to ? away() : ledger.apply(change)),
  }),
})

/** A gateway with its own plugin that responds in one phase. */
const withPlugin = (phase: 'guard' | 'claim', hook: Hook): TestGatewayOptions => ({
  plugins: [{ use: 'own' }, ...shortPlugins],
  extraPlugins: [
    gatewayPlugin({
      name: 'own',
      api: 1,
      options: noOptions,
      needs: [],
      setup: () => ({ route: () => ({ [phase]: hook }) }),
    }),
  ],
})

const cases: Record<string, Case> = {
  'what can not be decoded': {
    payment: 'junk',
    status: 400,
    receipt: { errorReason: 'invalid_payload', transaction: '', network: testNetwork },
  },
  'another network': {
    payment: encodeHeader({
      x402Version: 2,
      accepted: { scheme: 'exact', network: 'eip155:1' },
      payload: {},
    }),
    status: 402,
    receipt: { errorReason: 'invalid_network', transaction: '', network: testNetwork },
  },
  'a payment that does not hold': {
    payment: scriptedPayment('n', '1', payer, { authorization: { from: payer } }),
    status: 402,
    receipt: {
      errorReason: 'invalid_exact_evm_payload_authorization_value',
      network: testNetwork,
      payer,
      transaction: '',
    },
  },
  'a payer that is none': {
    payment: scriptedPayment('n', '1', payer, { nonce: 1, authorization: { from: '<script>' } }),
    status: 400,
    receipt: { network: testNetwork, payer: undefined },
  },
  'what the chain refuses at verify': {
    settler: (s) => {
      s.verifyWith = async () => ({ ok: false, reason: 'insufficient_funds', message: 'poor' })
    },
    status: 402,
    receipt: { ...known, errorReason: 'insufficient_funds', transaction: '' },
  },
  'a chain that is away': {
    settler: (s) => {
      s.verifyWith = async () => ({ ok: false, reason: 'rpc_unavailable', message: 'away', transient: true })
    },
    status: 503,
    receipt: { ...known, errorReason: 'rpc_unavailable', transaction: '' },
  },
  'a settlement that was not sent': {
    settler: (s) => {
      s.settleWith = async () => ({ status: 'rejected', reason: 'simulation_failed', message: 'no' })
    },
    status: 402,
    receipt: { ...known, errorReason: 'simulation_failed', transaction: '' },
  },
  'a settlement that failed for good': {
    settler: (s) => {
      const failed = { reason: 'transaction_failed', message: 'reverted', transaction: '0xdead' }
      s.settleWith = async () => ({ status: 'failed_final', ...failed })
    },
    status: 402,
    receipt: { ...known, errorReason: 'transaction_failed', transaction: '0xdead' },
  },
  'a settlement that is pending': {
    settler: (s) => {
      s.settleWith = async () => ({ status: 'pending', reason: 'settlement_pending', transaction: '0xfeed' })
    },
    status: 503,
    receipt: { ...known, errorReason: 'settlement_pending', transaction: '0xfeed' },
  },
  'a settler that breaks after the broadcast': {
    settler: (s) => {
      s.settleWith = () => Promise.reject(new Error('broken'))
    },
    status: 503,
    receipt: { ...known, errorReason: 'settlement_pending', transaction },
  },
  'a charge that could not be recorded': {
    options: storeFails('settled'),
    status: 503,
    receipt: { ...known, errorReason: 'settlement_pending', transaction },
  },
  'a claim that could not be written': {
    options: storeFails('claimed'),
    status: 503,
    receipt: { ...known, errorReason: 'store_unavailable', transaction: '' },
  },
  'a settlement that could not begin': {
    options: storeFails('settling'),
    status: 503,
    receipt: { ...known, errorReason: 'store_unavailable', transaction: '' },
  },
  'a look-up that failed': {
    options: {
      adapt: (ports) => ({
        ...ports,
        links: {
          ...ports.links,
          served: () => Promise.reject(new TollgateError('store_unavailable')),
        },
      }),
    },
    status: 503,
    receipt: { errorReason: 'store_unavailable', transaction: '', network: testNetwork },
  },
  'too many failed payments': {
    options: { plugins: [{ use: 'rate-limit', with: { paymentPoints: 1 } }, ...shortPlugins] },
    before: ['junk'],
    status: 429,
    receipt: { errorReason: 'rate_limited', transaction: '', network: testNetwork },
  },
  'a HEAD, which buys nothing': {
    init: { method: 'HEAD' },
    status: 402,
    receipt: { errorReason: 'payment_required', transaction: '', network: testNetwork },
  },
  "what a plugin of one's own answers before the payment is read": {
    options: withPlugin('guard', () => ({ status: 403, headers: [], body: null })),
    status: 403,
    receipt: { errorReason: 'request_refused', transaction: '', network: testNetwork },
  },
  "what a plugin of one's own answers when it has seen who pays": {
    options: withPlugin('claim', (x) => {
      x.errorCode = 'not_a_member'
      return { status: 403, headers: [], body: null }
    }),
    status: 403,
    receipt: { ...known, errorReason: 'not_a_member', transaction: '' },
  },
  'a body that is too large': {
    options: {
      plugins: [
        ...shortPlugins.slice(0, 2),
        { use: 'upstream', with: { maxRequestBytes: 5 } },
        shortPlugins[3]!,
      ],
    },
    init: { method: 'POST', body: '123456' },
    status: 413,
    // Refused before the payment is read.
    receipt: { errorReason: 'payload_too_large', transaction: '', network: testNetwork },
  },
  'an address that no link has': {
    path: '/api/link/demo/gone',
    status: 404,
    receipt: { errorReason: 'link_not_found', transaction: '', network: testNetwork },
  },
  'a path with two readings': {
    path: '/api/link/demo/paid/%2f',
    status: 400,
    receipt: { errorReason: 'bad_request', transaction: '', network: testNetwork },
  },
  'a suspended link': {
    options: { plugins: [{ use: 'health', with: { probe: false } }, ...shortPlugins] },
    suspended: true,
    status: 503,
    receipt: { ...known, errorReason: 'api_suspended', transaction: '' },
  },
}

const suspension = { sinceMs: 1, reason: 'down', cooldownUntilMs: 2, permanent: false }

const scripted = createScriptedSettler()
const unscripted = { verifyWith: scripted.verifyWith, settleWith: scripted.settleWith }
/** For all cases that need no other gateway. */
const usual = await startGateway(t, { settlers: [scripted], plugins: shortPlugins })
let count = 0

for (const [name, { status, receipt, init = {}, path, ...given }] of Object.entries(cases)) {
  t.test(`who reads headers only hears why a payment is refused: ${name}`, async (t) => {
    count++
    const { payment = scriptedPayment(`case-${count}`, '100000') } = given
    Object.assign(scripted, unscripted)
    given.settler?.(scripted)
    const gateway =
      given.options === undefined
        ? usual
        : await startGateway(t, { settlers: [scripted], plugins: shortPlugins, ...given.options })
    const link = await gateway.addLink({ slug: `paid-${count}`, url: seller.url, price: '0.10' })
    if (given.suspended) await gateway.store.links.setSuspension(link.id, suspension, 1)
    const call = (header: string) =>
      fetch(path === undefined ? link.url : gateway.url + path, {
        ...init,
        headers: { 'payment-signature': header, origin: 'https://shop.test' },
      })
    for (const header of given.before ?? []) await (await call(header)).text()
    const response = await call(payment)
    const text = await response.text()
    t.equal(response.status, status, text)
    const decoded = decodePaymentResponseHeader(response.headers.get('payment-response')!)
    t.match(decoded, { success: false, ...receipt })
    t.match(response.headers.get('access-control-expose-headers'), /PAYMENT-RESPONSE, X-PAYMENT-RESPONSE/)
    const body = text === '' ? {} : JSON.parse(text)
    if (typeof body.error === 'object') {
      t.equal(body.error.reason ?? body.error.code, decoded.errorReason, 'the body says the same')
      t.equal(body.transaction ?? '', decoded.transaction)
    }
  })
}

t.test('version 1 has its own header, and its network by name', async (t) => {
  const settler = createScriptedSettler()
  settler.verifyWith = async () => ({ ok: false, reason: 'insufficient_funds', message: 'poor' })
  const gateway = await startGateway(t, { settlers: [settler], plugins: shortPlugins })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const refused = async (header: string) => {
    const { headers } = await fetch(link.url, { headers: { 'x-payment': header } })
    t.equal(headers.get('payment-response'), null)
    return decodePaymentResponseHeader(headers.get('x-payment-response')!)
  }
  t.match(await refused(scriptedPaymentV1('n', '100000')), {
    success: false,
    errorReason: 'insufficient_funds',
    network: 'base-sepolia',
    payer,
    transaction: '',
  })
  t.match(await refused('junk'), { success: false, errorReason: 'invalid_payload', network: 'base-sepolia' })
})

t.test('nobody who brought no payment, and nobody at a free link, gets a receipt', async (t) => {
  const plugins = [{ use: 'rate-limit', with: { points: 1 } }, ...shortPlugins]
  const gateway = await startGateway(t, { settlers: [createScriptedSettler()], plugins })
  const free = await gateway.addLink({ slug: 'free', url: seller.url, price: '0' })
  const paid = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  await fetch(paid.url)
  for (const response of [
    await fetch(paid.url),
    await fetch(free.url, { headers: { 'x-payment': 'junk' } }),
  ]) {
    t.equal(response.status, 429)
    t.equal(response.headers.get('x-payment-response') ?? response.headers.get('payment-response'), null)
  }
})

t.test('whoever waits for a call with the same payment gets its receipt too', async (t) => {
  const settler = createScriptedSettler()
  const begun = Promise.withResolvers<void>()
  const mayEnd = Promise.withResolvers<void>()
  settler.settleWith = async () => {
    begun.resolve()
    await mayEnd.promise
    return { status: 'pending', reason: 'settlement_pending', transaction: '0xfeed' }
  }
  const plugins = [{ use: 'x402' }, { use: 'replay-guard' }, { use: 'upstream' }, { use: 'purchase-record' }]
  const gateway = await startGateway(t, { settlers: [settler], plugins })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const call = () => fetch(link.url, { headers: { 'payment-signature': good } })
  const first = call()
  await begun.promise
  const second = call()
  await until(() => settler.calls.check === 2)
  mayEnd.resolve()
  for (const response of await Promise.all([first, second])) {
    t.equal(response.status, 503)
    t.match(decodePaymentResponseHeader(response.headers.get('payment-response')!), { transaction: '0xfeed' })
  }
})
