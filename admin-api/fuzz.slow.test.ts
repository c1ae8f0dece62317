import fc from 'fast-check'
import t from 'tap'
import { bodies, paths, pick, target } from '../test/helpers/admin-api/fuzzTarget.ts'
import { evmWallet, solanaWallet } from '../test/helpers/admin-api/wallets.ts'

t.test('no JSON whatever is answered with a 5xx', async (t) => {
  const { id, right, check } = await target(t)
  const routes = [...bodies, { method: 'PATCH', path: `/api/v1/links/${id}`, fields: bodies[4].fields }]
  const arbitrary = fc.constantFrom(...routes).chain((route) =>
    fc.record({
      route: fc.constant(route),
      body: fc.oneof(
        fc.jsonValue({ maxDepth: 4 }),
        fc.dictionary(fc.constantFrom<string>(...route.fields), fc.jsonValue({ maxDepth: 3 }), {
          maxKeys: 6,
        }),
      ),
    }),
  )
  await fc.assert(
    fc.asyncProperty(arbitrary, async ({ route, body }) => {
      const isObject = typeof body === 'object' && body !== null && !Array.isArray(body)
      return (
        (await check(route.method, route.path, body)) &&
        (!isObject || (await check(route.method, route.path, { ...pick(right, route.fields), ...body })))
      )
    }),
    { numRuns: 1_000 },
  )
})

t.test('no bytes in place of JSON, and no path, are answered with a 5xx', async (t) => {
  const { f, key, check } = await target(t)
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...bodies), fc.string({ unit: 'binary' }), async (route, text) => {
      const headers = { 'content-type': 'application/json' }
      return (await f.call(route.method, route.path, { key, body: text, headers })).status < 500
    }),
    { numRuns: 500 },
  )
  const rawPath = fc.string({
    unit: fc.constantFrom('/', '.', '%', '2', 'f', '0', 'a', '?', '=', '&', ';', '~', '+'),
  })
  await fc.assert(
    fc.asyncProperty(rawPath, async (piece) => {
      for (const [method, path] of paths(piece)) if (!(await check(method!, path!))) return false
      return true
    }),
    { numRuns: 200 },
  )
})

t.test('no message and no signature, however it is put together, opens a store', async (t) => {
  const { f } = await target(t)
  const wallets = [evmWallet(), solanaWallet()]
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...wallets),
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.func(fc.string()),
      async (wallet, signature, change) => {
        const { address, chain } = wallet
        const { message } = (await f.call('POST', '/api/agent/auth/nonce', { body: { address, chain } })).body
          .data
        const signed = await wallet.sign(message)
        for (const body of [
          { address, chain, message, signature: signature || 'x' },
          { address, chain, message: `${message}${change(message)} `, signature: signed },
        ]) {
          const { status } = await f.call('POST', '/api/agent/signup', { body })
          if (status !== 400 && status !== 401) return false
        }
        return true
      },
    ),
    { numRuns: 50 },
  )
})
