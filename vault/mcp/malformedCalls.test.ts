import t from 'tap'
import { startMcp } from '../../test/helpers/vault/mcp/startMcp.ts'

t.test('a call in the wrong form is answered with what its params should be', async (t) => {
  const mcp = await startMcp(t)
  const agent = await mcp.vault.agent('a', ['wallet.base'])
  const { client } = await mcp.connect(agent)
  const name = 'vault_get_address'
  for (const params of [{ name, arguments: '{"chain":"base"}' }, { name, arguments: ['base'] }, {}]) {
    const refused = client.callTool(params as never)
    const message = /Expected \{name, arguments\}.*an object, not as JSON text/
    await t.rejects(refused, { code: -32_602, message }, JSON.stringify(params))
  }
  const { structuredContent } = await client.callTool({ name, arguments: { chain: 'base' } })
  t.match(structuredContent, { chain: 'base' }, 'and the session goes on')
})
