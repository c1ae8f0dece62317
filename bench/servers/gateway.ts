// The gateway as `tollgate start` builds it: the real kernel, plugins, pools and store; only the chain is stubbed.
// In its first argument: GatewayServerOptions, and where the store is when it is not in `folder`. Prints {port, links} when it listens.
import { join } from 'node:path'
import type { StoreAt } from '../scale/target.ts'
import { createGatewayUnderTest, type GatewayServerOptions } from './createGatewayUnderTest.ts'

const options = JSON.parse(process.argv[2]!) as GatewayServerOptions & (StoreAt | Record<never, never>)
const at: StoreAt =
  'postgresUrl' in options || 'dbPath' in options ? options : { dbPath: join(options.folder, 'tollgate.db') }
const { listen } = await createGatewayUnderTest({ ...options, ...at })
console.log(JSON.stringify({ port: await listen() }))
