import t from 'tap'
import { formParts } from '../../core/plugin/requestHash.ts'
import { startPaid } from '../../test/helpers/paid.ts'
import { sellerOf } from '../../test/helpers/sellerOf.ts'
import { scriptedPayment } from '../../test/helpers/settler.ts'

const type = (boundary: string) => `multipart/form-data; boundary=${boundary}`
const partsOf = (boundary: string, body: string) =>
  formParts(type(boundary), Buffer.from(body))?.map(String) ?? null

t.test('a form is its parts, whatever its boundary', async (t) => {
  const form = (b: string) => `--${b}\r\nA: 1\r\n\r\none\r\n--${b}\r\nB: 2\r\n\r\ntwo\r\n\r\n--${b}--\r\n`
  const parts = ['A: 1\r\n\r\none', 'B: 2\r\n\r\ntwo\r\n']
  for (const boundary of ['x', '----WebKitFormBoundary7', 'a.b'])
    t.same(partsOf(boundary, form(boundary)), parts)
  t.same(
    formParts('Multipart/Form-Data; charset=utf-8; boundary="a b"', Buffer.from(form('a b')))?.map(String),
    parts,
  )
  t.same(partsOf('x', '--x--'), [])
})

t.test('what readers could take apart in two ways is compared as it is', async (t) => {
  for (const body of [
    ...[
      '',
      'x',
      '--x',
      '--x\r\n',
      '--x\r\nA: 1\r\n\r\none',
      '--x\r\nA\r\n--x',
      '--x\r\nA\r\n--xy\r\n\r\n--x--',
    ],
    ...[
      'preamble\r\n--x\r\nA\r\n--x--',
      '--x\r\nA\r\n--x--epilogue',
      '--x \r\nA\r\n--x--',
      '--x\nA\n--x--',
      '--x\r\n--x--',
    ],
    `${'--x\r\nA\r\n'.repeat(1_001)}--x--`,
  ])
    t.equal(partsOf('x', body), null, body.slice(0, 60))
  t.equal(formParts('text/plain; boundary=x', Buffer.from('--x--')), null)
  t.equal(formParts(undefined, Buffer.from('--x--')), null)
})

t.test('a repeated form gets its answer again, and another one is another call', async (t) => {
  const { gateway, settler } = await startPaid(t)
  const seller = await sellerOf(t, (req, res) => {
    req.resume()
    res.setHeader('content-type', 'application/json').end('{}')
  })
  const link = await gateway.addLink({ slug: 'form', url: seller.url, price: '0.10' })
  const form = (name = 'file', text = 'R'.repeat(20_000), filename = 'a.wav', mediaType = 'audio/wav') => {
    const data = new FormData()
    data.append('first', '1')
    data.append(name, new Blob([text], { type: mediaType }), filename)
    return data
  }
  const send = async (body: FormData, nonce: string, more = {}) => {
    const headers = { 'payment-signature': scriptedPayment(nonce, '100000'), ...more }
    const response = await fetch(link.url, { method: 'POST', body, headers })
    await response.text()
    return response.status
  }
  const key = { 'idempotency-key': 'upload-0123456789abcdef' }
  for (let nth = 0; nth < 2; nth++) {
    t.equal(await send(form(), 'n'), 200)
    t.equal(await send(form(), 'keyed', key), 200)
  }
  const added = form()
  added.append('more', '')
  for (const other of [form('other'), form('file', 'S'), form('file', undefined, 'b.wav'), added])
    t.equal(await send(other, 'n'), 409)
  t.equal(await send(form('file', undefined, undefined, 'audio/mp3'), 'n'), 409)
  t.equal(settler.transfers.length, 2)
  t.equal(seller.calls, 2)
})
