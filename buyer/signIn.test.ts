import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseSIWxHeader, validateSIWxMessage, verifySIWxSignature } from '@x402/extensions/sign-in-with-x'
import t, { type Test } from 'tap'
import { generatePrivateKey } from 'viem/accounts'
import { encodeHeader } from '../core/x402/header.ts'
import { createEvmBuyer } from './chains/evmBuyer.ts'
import type { HttpCall } from './httpCall.ts'
import { callOnce } from './httpCall.ts'
import { signInTo } from './signIn.ts'

const wallet = createEvmBuyer({ privateKey: generatePrivateKey() })

/** Signs in at a server that offers this text. @returns what came of it, and the headers that the server got */
async function signInAt(t: Test, change: (info: Record<string, unknown>, origin: string) => void = () => {}) {
  const signed: string[] = []
  const server = createServer((request, response) => {
    const { origin, host } = new URL(`http://${request.headers.host}`)
    const header = request.headers['sign-in-with-x']
    if (typeof header === 'string') {
      signed.push(header)
      return response.end('{"ok":true}')
    }
    const info: Record<string, unknown> = {
      domain: host,
      uri: `${origin}/data`,
      version: '1',
      nonce: '0123456789abcdef',
      issuedAt: new Date().toISOString(),
      statement: 'Sign in.',
      resources: [`${origin}/data`],
    }
    change(info, origin)
    const supportedChains = [{ chainId: 'eip155:8453', type: 'eip191' }]
    const offer = { x402Version: 2, accepts: [], extensions: { 'sign-in-with-x': { info, supportedChains } } }
    response.writeHead(402, { 'payment-required': encodeHeader(offer) }).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/data`)
  const { signal } = new AbortController()
  const call: HttpCall = { url, method: 'GET', headers: [], body: undefined, maxBodyBytes: 1_000, signal }
  const end = await signInTo(await callOnce(call), call, { eip155: wallet }, undefined)
  return { end, signed, origin: url }
}

t.test("the package's server accepts what the buyer signs, with every optional field", async (t) => {
  for (const more of [
    {},
    { statement: undefined, resources: undefined },
    { requestId: 'r-1', notBefore: '2026-01-01T00:00:00.000Z', expirationTime: '2100-01-01T00:00:00Z' },
  ]) {
    const { end, signed, origin } = await signInAt(t, (info) => void Object.assign(info, more))
    t.equal(end.response?.status, 200, end.message)
    const payload = parseSIWxHeader(signed[0]!)
    t.match(await validateSIWxMessage(payload, origin), { isValid: true })
    t.match(await verifySIWxSignature(payload), { isValid: true, payer: wallet.address })
  }
})

t.test('a text for another server, or that could hide another one, is not signed', async (t) => {
  const wrong: Record<string, unknown>[] = [
    { domain: 'bank.example' },
    { uri: 'https://bank.example/' },
    { uri: 'nonsense' },
    { version: '2' },
    { nonce: 'a b' },
    { nonce: 'short' },
    { issuedAt: 'today\nNonce: 1' },
    { statement: 'a\nURI: https://bank.example/' },
    { statement: '' },
    { expirationTime: 7 },
    { requestId: 'a\rb' },
    { resources: 'https://x' },
    { resources: ['a\nb'] },
    { resources: new Array(21).fill('https://x') },
  ]
  for (const change of wrong) {
    const { end, signed } = await signInAt(t, (info) => void Object.assign(info, change))
    t.equal(end.response, null, JSON.stringify(change))
    t.match(end.message, /Nothing was signed/)
    t.strictSame(signed, [])
  }
})
