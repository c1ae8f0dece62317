import { PassThrough } from 'node:stream'
import pg from 'pg'
import t from 'tap'
import { connectPool } from '../../../adapters/store/postgres/connect.ts'
import { createLog } from '../../../cli/runtime/createLog.ts'
import { until } from '../../helpers/rawHttp.ts'
import { databaseUrl, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false
const connections = 4

t.test(
  'connections that the server ends are one line of the log, without the client',
  { skip },
  async (t) => {
    const stream = new PassThrough({ encoding: 'utf8' })
    let text = ''
    stream.on('data', (line: string) => (text += line))
    const pool = connectPool({
      url: databaseUrl,
      schema: 'public',
      maxConnections: connections,
      connectTimeoutMs: 5_000,
      queryTimeoutMs: 5_000,
      log: createLog({ level: 'info', format: 'json' }, stream as unknown as NodeJS.WriteStream),
    })
    t.teardown(() => pool.end())
    const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()))
    const pids = await Promise.all(
      clients.map(async (client) => (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid),
    )
    for (const client of clients) client.release()
    const operator = new pg.Client({ connectionString: databaseUrl })
    await operator.connect()
    t.teardown(() => operator.end())
    await operator.query('SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid', [pids])
    await until(() => pool.totalCount === 0, 'the pool to notice')

    const lines = text.trim().split('\n')
    t.equal(lines.length, 1, text)
    const { msg, err } = JSON.parse(lines[0]!)
    t.equal(msg, 'A connection to PostgreSQL ended.')
    t.match(err, { message: /terminating connection/, code: 'store_unavailable' })
    t.notMatch(lines[0], /secretKey|connectionParameters|SELECT/)
  },
)
