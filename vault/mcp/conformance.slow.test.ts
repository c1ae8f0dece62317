import t from 'tap'
import { createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'
import { passesConformance } from '../../test/helpers/conformance.ts'
import { initialize } from '../../test/helpers/vault/mcp/startMcp.ts'

t.test('a running vault passes the conformance suite of the protocol', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const { url } = await box.serve(['--mode', 'http-mcp', '--insecure-no-token'])
  await passesConformance(t, `${url}/mcp`)

  // Later versions of the suite have this as server-session-lifecycle; the version in use does not.
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const send = (method: string, body?: object, more: object = {}) =>
    fetch(`${url}/mcp`, {
      method,
      headers: { ...headers, ...more },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  const begun = await send('POST', initialize('2025-11-25'))
  const session = {
    'mcp-session-id': begun.headers.get('mcp-session-id')!,
    'mcp-protocol-version': '2025-11-25',
  }
  const noted = await send('POST', { jsonrpc: '2.0', method: 'notifications/initialized' }, session)
  t.equal(noted.status, 202)
  t.equal((await send('DELETE', undefined, session)).status, 200)
  const after = await send('POST', { jsonrpc: '2.0', id: 2, method: 'tools/list' }, session)
  t.equal(after.status, 404)
})

t.test('without --mode http-mcp there is no /mcp', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const { url } = await box.serve(['--insecure-no-token'])
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(initialize()),
  })
  t.equal(response.status, 404)
})
