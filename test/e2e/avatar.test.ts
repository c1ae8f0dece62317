import t from 'tap'
import { images } from '../helpers/admin-api/images.ts'
import { startProduct } from './helpers/product.ts'

// The largest picture there may be, through the listener that everybody calls.
const { url, store } = await startProduct(t)

async function upload(bytes: number): Promise<Response> {
  const form = new FormData()
  const padding = Buffer.alloc(bytes - images.gif.length)
  form.set('file', new File([new Uint8Array(images.gif), new Uint8Array(padding)], 'me.gif'))
  return fetch(`${url}/api/v1/avatar`, {
    method: 'POST',
    headers: { authorization: `Bearer ${store.apiKey}` },
    body: form,
  })
}

t.test('a megabyte comes through the gateway and is shown from there', async (t) => {
  const sent = await upload(1_048_576)
  t.equal(sent.status, 200)
  const { data } = (await sent.json()) as { data: { avatarUrl: string } }
  t.ok(data.avatarUrl.startsWith(`${url}/avatar/`))
  const shown = await fetch(data.avatarUrl)
  t.equal(shown.headers.get('content-type'), 'image/gif')
  t.equal(shown.headers.get('x-content-type-options'), 'nosniff')
  t.strictSame(Buffer.from(await shown.arrayBuffer()), images.gif, 'and nothing of what stood behind it')
})

t.test('more is refused in words, also by a connection that has sent all of it', async (t) => {
  const refused = await upload(3_000_000)
  t.equal(refused.status, 413)
  t.match(await refused.json(), { success: false, error: { code: 'PAYLOAD_TOO_LARGE' } })
})
