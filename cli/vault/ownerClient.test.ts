import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { openOwnerClient } from './ownerClient.ts'

t.test('a running vault that an earlier version started is named, and not misread', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'tollgate-owner-'))
  const socketPath = join(home, 'owner.sock')
  const status: Record<string, unknown> = { vault_id: 'vlt_1', locked: false, log_damage: null }
  const server = createServer((_req, res) => res.end(JSON.stringify(status)))
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  t.teardown(async () => {
    await new Promise((resolve) => server.close(resolve))
    rmSync(home, { recursive: true })
  })
  await t.rejects(openOwnerClient({ home, socketPath }), /earlier version .* Stop it and start it again/)
  status.warnings = []
  const client = await openOwnerClient({ home, socketPath })
  t.match(await client.call('GET', '/v1/vault/status'), { vault_id: 'vlt_1' })
})
