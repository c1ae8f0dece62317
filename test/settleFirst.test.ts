import t from 'tap'
import { hasWholeResponse, openSocket, talk, until } from './helpers/rawHttp.ts'
import { answering, startAnswering } from './helpers/respondingPlugin.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'

const { settler, gateway, payment, paidLink, reaches } = await startAnswering(t, 'first')

t.test(
  'settled first: a stream reaches the buyer piece by piece, wrapped, and JSON stays JSON',
  async (t) => {
    const mayGoOn = Promise.withResolvers<void>()
    const seller = await sellerOf(t, async (_req, res) => {
      res.writeHead(200, { 'content-type': 'application/json' })
      res.write('[1,')
      await mayGoOn.promise
      res.end('2]')
    })
    const link = await paidLink('stream', seller.url, { settle: 'before' })
    const headers = payment()
    const response = await fetch(link.url, { headers })
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (!text.includes('[1,')) text += (await reader.read()).value
    t.equal(text, '{"data":[1,', 'the first piece is there before the second is made')
    mayGoOn.resolve()
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value
    t.match(JSON.parse(text), { data: [1, 2], _svc: { purchaseId: response.headers.get('x-purchase-id')! } })
    await reaches(headers, 'delivered')
    t.equal(await (await fetch(link.url, { headers })).text(), text, 'and is kept for a repeat')
    t.equal(seller.calls, 1)
  },
)

t.test('settled first: who asks again while the answer is on its way gets it as well', async (t) => {
  const mayGoOn = Promise.withResolvers<void>()
  const seller = await sellerOf(t, async (_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' })
    res.write('[1,')
    await mayGoOn.promise
    res.end('2]')
  })
  const link = await paidLink('stream-join', seller.url, { settle: 'before' })
  const headers = payment()
  const first = fetch(link.url, { headers }).then((r) => r.text())
  await until(() => seller.calls === 1)
  const checks = settler.calls.check
  const joined = fetch(link.url, { headers }).then((r) => r.text())
  await until(() => settler.calls.check > checks)
  mayGoOn.resolve()
  t.equal(await joined, await first)
  t.equal(seller.calls, 1)
})

t.test('settled first: a seller that fails owes the buyer, who hears it with the purchase', async (t) => {
  for (const kind of ['status-500', 'redirect', 'silent', 'reset', 'status-404'] as const) {
    const seller = await startSeller(t, kind)
    const link = await paidLink(`owes-${kind}`, seller.url, { settle: 'before' })
    const headers = payment()
    const before = settler.transfers.length
    const response = await fetch(link.url, { headers })
    await reaches(headers, 'refund_due')
    t.equal(settler.transfers.length, before + 1, 'charged')
    if (kind === 'status-404') t.equal(response.status, 404)
    else {
      t.equal(response.status, kind === 'silent' ? 504 : 502)
      t.match(await response.json(), {
        error: { message: /You were charged\. The seller owes you a refund/, retryable: false },
        purchaseId: /^[0-9a-f-]{36}$/,
      })
    }
    t.ok(response.headers.get('payment-response'), `${kind}: the receipt`)
    const again = await fetch(link.url, { headers })
    t.equal(again.status, 409, 'the payment is spent')
  }
  t.match(await gateway.store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('settled first: a stream that breaks in the middle is broken for the buyer, and owed', async (t) => {
  const seller = await startSeller(t, 'reset-mid-body')
  const link = await paidLink('broken', seller.url, { settle: 'before' })
  const headers = payment()
  await t.rejects(fetch(link.url, { headers }).then((r) => r.text()))
  await reaches(headers, 'refund_due')
})

t.test('settled first: a buyer who hangs up early finds the answer when it asks again', async (t) => {
  const mayGoOn = Promise.withResolvers<void>()
  const seller = await sellerOf(t, async (_req, res) => {
    await mayGoOn.promise
    res.writeHead(200, { 'content-type': 'application/json' }).end('{"late":true}')
  })
  const link = await paidLink('patient', seller.url, { settle: 'before' })
  const headers = payment()
  const socket = await openSocket(t, gateway.port)
  socket.write(
    `GET ${link.path} HTTP/1.1\r\nHost: g\r\nPayment-Signature: ${headers['payment-signature']}\r\n\r\n`,
  )
  await until(() => seller.calls === 1)
  socket.destroy()
  const joined = fetch(link.url, { headers }).then((r) => r.json())
  mayGoOn.resolve()
  t.match(await joined, { data: { late: true } })
  await reaches(headers, 'delivered')
  t.match(await (await fetch(link.url, { headers })).json(), { data: { late: true } })
  t.equal(seller.calls, 1)
})

t.test('settled first: an answer too large to keep is delivered once and not again', async (t) => {
  const seller = await answering(t, 'application/json', JSON.stringify('x'.repeat(200_000)))
  const link = await paidLink('huge', seller.url, { settle: 'before' })
  const headers = payment()
  const body = (await (await fetch(link.url, { headers })).json()) as { data: string }
  t.equal(body.data.length, 200_000)
  await reaches(headers, 'delivered')
  t.equal((await fetch(link.url, { headers })).status, 409)
  t.equal(seller.calls, 1)
})

t.test(
  'settled first: a body that states to be too large is refused before anything is charged',
  async (t) => {
    const seller = await startSeller(t, 'echo')
    const link = await paidLink('first-large', seller.url, { settle: 'before' })
    const before = settler.transfers.length
    const head = `POST ${link.path} HTTP/1.1\r\nHost: g\r\nContent-Length: 999999999\r\n`
    const result = await talk(
      gateway.port,
      `${head}Payment-Signature: ${payment()['payment-signature']}\r\n\r\n`,
      hasWholeResponse,
    )
    t.strictSame(result.statuses, [413])
    t.equal(settler.transfers.length, before)
  },
)
