import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { passesConformance } from '../../test/helpers/conformance.ts'

t.test('the marketplace passes the conformance suite of the protocol', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  await passesConformance(t, `http://localhost:${port}/mcp`)
})
