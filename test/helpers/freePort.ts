import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A TCP port on 127.0.0.1 that is free now: for servers that need their port before it listens. It lies below the ports that the
 * system gives to outgoing connections (from 32,768 on Linux), so that none of these takes it before its owner has started.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(12_000, 32_000)
    const server = createServer().listen(port, '127.0.0.1')
    try {
      await once(server, 'listening')
    } catch {
      continue
    }
    server.close()
    await once(server, 'close')
    return port
  }
}
