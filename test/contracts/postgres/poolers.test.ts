import { chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { openPostgres } from '../../../adapters/store/postgres/openPostgres.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { newSchema } from '../../helpers/postgres.ts'
import { skipOrFail } from '../../helpers/redis.ts'
import { startPooler } from '../../helpers/servers/startPooler.ts'
import { startPostgresServer, whyNoPostgresServer } from '../../helpers/servers/startPostgresServer.ts'
import { testClock } from '../samples.ts'
import { databaseUrl, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false
const openAt = (url: string, schema?: string) =>
  openPostgres({ url, schema, clock: testClock(), log: silentLog })

t.test('a pooler that forgets where the tables are is refused, and nothing is made', { skip }, async (t) => {
  const { schema } = newSchema(t)
  const url = await startPooler(t, databaseUrl, 'forgets settings')
  await t.rejects(openAt(url, schema), { message: /pooler .*search_path/ })
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  const { rows } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
  t.strictSame(rows, [])
})

t.test('a pooler that hands connections out by the transaction is refused', { skip }, async (t) => {
  const { schema } = newSchema(t)
  const url = await startPooler(t, databaseUrl, 'hands out one connection')
  await t.rejects(openAt(url, schema), { message: /pooler .*two connections are one/ })
})

t.test('a standby is refused as what it is, and a server whose transactions see nothing new', async (t) => {
  const why = whyNoPostgresServer()
  if (why !== undefined) return skipOrFail(t, why)
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-standby-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  const server = await startPostgresServer(t, { dir })
  await (await openAt(server.url)).close()
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  await client.query("ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'")
  await t.rejects(openAt(server.url), {
    message: /transactions are repeatable read, and the ledger needs read committed/,
  })
  await client.query('ALTER DATABASE postgres RESET default_transaction_isolation')
  await client.end()
  await (await openAt(server.url)).close()
  await server.stop('fast')
  const signal = join(dir, 'data', 'standby.signal')
  writeFileSync(signal, '')
  const { uid, gid } = statSync(join(dir, 'data'))
  chownSync(signal, uid, gid)
  await server.start()
  await t.rejects(openAt(server.url), {
    message: /^The database accepts no writes: the server is a standby\./,
  })
})
