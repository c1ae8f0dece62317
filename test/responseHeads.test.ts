import { request } from 'node:http'
import t from 'tap'
import { startAnswering } from './helpers/respondingPlugin.ts'
import { sellerOf } from './helpers/sellerOf.ts'

const { settler, payment, paidLink, reaches } = await startAnswering(t, 'heads')

/** A seller whose header is as long as `?n=` says: in one line, or in lines of 100 bytes. */
const seller = await sellerOf(t, (req, res) => {
  const asked = new URL(req.url!, 'http://seller.test').searchParams
  const bytes = Number(asked.get('n'))
  const lines =
    asked.get('lines') === 'many'
      ? Array.from({ length: Math.floor(bytes / 100) }, (_, i) => [`x-line-${100 + i}`, 't'.repeat(90)])
      : [[asked.get('name') ?? 'x-trace', 't'.repeat(bytes)]]
  res.writeHead(200, [['content-type', 'application/json'], ...lines].flat()).end('{"ok":1}')
})
const sizes = [15_000, 15_200, 15_400, 15_600, 15_800, 16_000, 16_200, 16_400, 20_000]

for (const mode of ['wrap', 'raw'] as const) {
  t.test(`a buyer reads what they were charged for, however long the head (${mode})`, async (t) => {
    const link = await paidLink(`after-${mode}`, seller.url, { responseMode: mode })
    for (const lines of ['one', 'many'])
      for (const n of sizes)
        for (const origin of [{}, { origin: 'https://page.example' }]) {
          const headers = { ...payment(), ...origin }
          const before = settler.transfers.length
          const url = `${link.url}?n=${n}&lines=${lines}`
          const response = await fetch(url, { headers })
          const text = await response.text()
          const what = `${n} bytes in ${lines} with ${JSON.stringify(origin)}`
          if (n === 15_000) t.equal(response.status, 200, what)
          if (response.status === 200) {
            t.equal(settler.transfers.length, before + 1, `${what}: charged`)
            t.ok(response.headers.get('payment-response'), what)
            await reaches(headers, 'delivered')
            const again = await fetch(url, { headers: { ...headers, origin: 'https://page.example' } })
            t.equal(await again.text(), text, `${what}: the kept answer is readable from a page`)
          } else {
            t.equal(response.status, 502, what)
            t.match(text, /headers of the seller's response are too large.* You were not charged/, what)
            t.equal(settler.transfers.length, before, `${what}: nothing is charged`)
          }
        }
  })
}

t.test('charged first: the longest headers are left out, and the answer arrives', async (t) => {
  const link = await paidLink('before', seller.url, { settle: 'before' })
  // As lines the gateway reads fewer bytes from the seller: each has a separator and an end.
  for (const [lines, all] of [
    ['one', [15_000, 15_200, 15_600, 16_000, 16_200]],
    ['many', [15_000, 15_200, 15_400]],
  ] as const)
    for (const n of all) {
      const headers = { ...payment(), origin: 'https://page.example' }
      const url = `${link.url}?n=${n}&lines=${lines}`
      const response = await fetch(url, { headers })
      t.equal(response.status, 200, `${n} bytes in ${lines}`)
      const text = await response.text()
      t.match(JSON.parse(text), { data: { ok: 1 } })
      t.ok(response.headers.get('payment-response'))
      t.equal(response.headers.get('x-content-type-options'), 'nosniff')
      await reaches(headers, 'delivered')
      t.equal(await (await fetch(url, { headers })).text(), text, 'and again from the store')
    }
})

t.test(
  'charged first: a head that no client could read is a refund owed, in an answer that can be read',
  async (t) => {
    const link = await paidLink('before-too-large', seller.url, { settle: 'before' })
    for (const query of ['n=16400', 'n=20000', 'n=16200&name=content-note']) {
      const headers = payment()
      const response = await fetch(`${link.url}?${query}`, { headers })
      t.equal(response.status, 502, query)
      t.match(await response.json(), {
        error: { message: /headers of the seller's response are too large.* The seller owes you a refund/ },
        purchaseId: String,
      })
      await reaches(headers, 'refund_due')
    }
  },
)

t.test("Node's own client reads it too, with the longest request id that is kept", async (t) => {
  const link = await paidLink('node-http', seller.url, {})
  const headers = { ...payment(), origin: 'https://page.example', 'x-request-id': 'r'.repeat(64) }
  const status = await new Promise((resolve, reject) => {
    request(`${link.url}?n=15000`, { headers }, (res) => resolve(res.resume().statusCode))
      .on('error', reject)
      .end()
  })
  t.equal(status, 200)
})
