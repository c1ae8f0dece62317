import t, { type Test } from 'tap'
import { encodeHeader } from '../../core/x402/header.ts'
import { startGateway, type TestGatewayOptions } from '../../test/helpers/gateway.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment, testAsset, testNetwork } from '../../test/helpers/settler.ts'

const id = 'pay_7d5d747be160e280504c099d984bcfe0'
const payer = '0x2222222222222222222222222222222222222222'

interface Sent {
  readonly nonce: string
  readonly identifier?: unknown
  readonly by?: string
  readonly value?: string
  readonly from?: string
}

/** A payment with an id. @param from the address that a proxy names */
const pay = ({ nonce, identifier = id, by = payer, value = '100000', from }: Sent): RequestInit => {
  const payment = {
    x402Version: 2,
    accepted: { scheme: 'exact', network: testNetwork, asset: testAsset },
    payload: { payer: by, nonce, value },
    extensions: { 'payment-identifier': { info: { required: false, id: identifier } } },
  }
  const headers = { 'payment-signature': encodeHeader(payment), ...(from && { 'x-forwarded-for': from }) }
  return { headers }
}

async function read(response: Response) {
  const receipt = response.headers.get('payment-response')
  return {
    status: response.status,
    text: await response.text(),
    receipt: receipt === null ? null : JSON.parse(Buffer.from(receipt, 'base64').toString()),
  }
}

async function start(t: Test, more: TestGatewayOptions = {}) {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const options = { settlers: [settler], options: { trustedProxyCidrs: ['127.0.0.0/8'] } }
  const gateway = await startGateway(t, { ...options, ...more })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const call = async (sent: Sent, below = '') => read(await fetch(link.url + below, pay(sent)))
  return { gateway, seller, settler, link, call }
}

const reused = { status: 409, text: /"code":"payment_id_reused".*"purchaseId":/s }

t.test('the same payment with its id gets the stored response and receipt, from any address', async (t) => {
  const { call, seller, settler } = await start(t)
  const first = await call({ nonce: 'n', from: '192.0.2.1' })
  t.match(first, { status: 200, receipt: { success: true, transaction: String } })
  for (const from of ['192.0.2.1', '198.51.100.9']) t.strictSame(await call({ nonce: 'n', from }), first)
  t.equal(seller.requests.length, 1)
  t.strictSame(settler.transfers, ['n'])
})

t.test('without the id, and with another one, a stranger does not get the response', async (t) => {
  const { call, link } = await start(t)
  await call({ nonce: 'n', from: '192.0.2.1' })
  const other = await call({ nonce: 'n', identifier: 'another-id-0123456789', from: '198.51.100.9' })
  t.match(other, {
    status: 409,
    text: /payment_already_used.*payment identifier or Idempotency-Key of the first call/s,
  })
  const headers = {
    'payment-signature': scriptedPayment('n', '100000'),
    'x-forwarded-for': '198.51.100.9',
    // What the id would be, under the name of the header.
    'idempotency-key': 'another-key-0123456789',
  }
  t.match(await read(await fetch(link.url, { headers })), { status: 409 })
  const key = await fetch(link.url, { headers: { ...headers, 'idempotency-key': id } })
  t.equal(key.status, 200, 'the same text as an Idempotency-Key proves the same')
})

t.test('another payment with the same id is a conflict, and nothing is charged for it', async (t) => {
  const { call, seller, settler } = await start(t)
  const first = await call({ nonce: 'n' })
  const second = await call({ nonce: 'm' })
  t.match(second, {
    ...reused,
    receipt: { success: false, errorReason: 'payment_id_reused', transaction: '' },
  })
  t.match(second.text, JSON.parse(first.text)._svc.purchaseId)
  t.match(await call({ nonce: 'm' }, '/else'), reused, 'for another call too')
  t.match(await call({ nonce: 'n' }, '/else'), { status: 409, text: /"payment_already_used"/ })
  t.strictSame(await call({ nonce: 'n' }), first)
  t.match(
    await call({ nonce: 'm', identifier: 'another-id-0123456789' }),
    { status: 200 },
    'it is good otherwise',
  )
  t.equal(seller.requests.length, 2)
  t.strictSame(settler.transfers, ['n', 'm'])
})

t.test(
  "another wallet's purchase is not in the way of an id, nor does it say that there is one",
  async (t) => {
    const { call, settler } = await start(t)
    const first = await call({ nonce: 'n' })
    const other = await call({ nonce: 'n', by: '0x3333333333333333333333333333333333333333' })
    t.equal(other.status, 200)
    t.not(JSON.parse(other.text)._svc.purchaseId, JSON.parse(first.text)._svc.purchaseId)
    t.equal(settler.transfers.length, 2)
  },
)

t.test('a payment that does not pay learns nothing of the id', async (t) => {
  const { call, settler } = await start(t)
  await call({ nonce: 'n' })
  const [known, unknown] = await Promise.all(
    [id, 'another-id-0123456789'].map((identifier) => call({ nonce: 'bad', value: '1', identifier })),
  )
  t.equal(known!.status, 402)
  const bare = ({ text }: { readonly text: string }) => text.replace(/"requestId":"[^"]*"/, '')
  t.equal(bare(known!), bare(unknown!))
  t.equal(settler.calls.verify, 1)
})

for (const [name, fail] of Object.entries({
  'was refused by the chain': (settler: ReturnType<typeof createScriptedSettler>) => {
    settler.verifyWith = async () => ({
      ok: false,
      reason: 'insufficient_funds',
      message: 'It has too little.',
    })
  },
  'could not be settled': (settler: ReturnType<typeof createScriptedSettler>) => {
    settler.settleWith = async () => ({
      status: 'rejected',
      reason: 'insufficient_funds',
      message: 'Too little.',
    })
  },
})) {
  t.test(`the id of a payment that ${name} is free for another one at once`, async (t) => {
    const { call, settler } = await start(t)
    const { verifyWith, settleWith } = settler
    for (let n = 0; n < 20; n++) {
      fail(settler)
      const identifier = `${id}-${n}`
      t.match(await call({ nonce: `bad-${n}`, identifier }), { status: 402 })
      Object.assign(settler, { verifyWith, settleWith })
      t.match(await call({ nonce: `good-${n}`, identifier }), { status: 200 })
      t.match(await call({ nonce: `bad-${n}`, identifier }), reused)
    }
    t.equal(settler.transfers.length, 20)
  })
}

t.test('of twenty payments at once with one id, over two gateways, one is charged', async (t) => {
  const { call, gateway, seller, settler, link } = await start(t)
  const second = await startGateway(t, { store: gateway.store, settlers: [settler] })
  const beside = second.url + link.path
  for (let round = 0; round < 5; round++) {
    const identifier = `${id}-${round}`
    const responses = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const sent = { nonce: `n${round}-${i}`, identifier }
        return i % 2 === 0 ? call(sent) : read(await fetch(beside, pay(sent)))
      }),
    )
    t.strictSame(responses.map(({ status }) => status).toSorted(), [200, ...Array(19).fill(409)])
    for (const response of responses) if (response.status === 409) t.match(response, reused)
    t.equal(seller.requests.length, round + 1)
    t.equal(settler.transfers.length, round + 1)
  }
})

t.test('an id in another form is 400 before anything is looked up', async (t) => {
  const { call, settler } = await start(t)
  for (const identifier of ['', 'short', 'x'.repeat(129), 'spaces in the text', 7, null, { id }]) {
    t.match(await call({ nonce: 'n', identifier }), {
      status: 400,
      text: /"invalid_payment".*info\.id must be a string of 16 to 128 letters, digits, hyphens and underscores/s,
    })
  }
  t.equal(settler.calls.check, 0)
})
