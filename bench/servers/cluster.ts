// Gateway processes that share one port: node:cluster, each with the whole pipeline and its own connection to the store.
// In its first argument: {count, gateway: GatewayServerOptions}. The first makes the database, the others join it.
import cluster from 'node:cluster'
import { once } from 'node:events'
import { join } from 'node:path'
import { createGatewayUnderTest, type GatewayServerOptions } from './createGatewayUnderTest.ts'

const { count, gateway } = JSON.parse(process.argv[2]!) as { count: number; gateway: GatewayServerOptions }

if (cluster.isPrimary) {
  const workers: number[] = []
  let port = 0
  for (let i = 0; i < count; i++) {
    const worker = cluster.fork({ JOINS: i === 0 ? '' : '1' })
    const [message] = (await once(worker, 'message')) as [{ port: number }]
    port = message.port
    workers.push(worker.process.pid!)
  }
  process.once('SIGTERM', () => {
    for (const worker of Object.values(cluster.workers!)) worker!.process.kill('SIGTERM')
    process.exit()
  })
  console.log(JSON.stringify({ port, workers }))
} else {
  const joins = process.env['JOINS'] === '1'
  const dbPath = join(gateway.folder, 'tollgate.db')
  const { listen } = await createGatewayUnderTest({ ...gateway, joins, dbPath })
  process.send!({ port: await listen() })
}
