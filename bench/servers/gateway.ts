// The gateway as `tollgate start` builds it: the real kernel, plugins, pools and SQLite store; only the chain is stubbed.
// In its first argument: GatewayServerOptions. Prints {port, links} when it listens.
import { join } from 'node:path'
import { createGatewayUnderTest, type GatewayServerOptions } from './createGatewayUnderTest.ts'

const options = JSON.parse(process.argv[2]!) as GatewayServerOptions
const { listen } = await createGatewayUnderTest({ ...options, dbPath: join(options.folder, 'tollgate.db') })
console.log(JSON.stringify({ port: await listen() }))
