import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { runTollgate } from '../../test/e2e/helpers/child.ts'

t.test('a gateway whose port is taken says which and ends, whichever of its ports it is', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => void other.close())
  const { port } = other.address() as { port: number }
  for (const taken of ['gateway', 'admin', 'monitoring']) {
    const folder = t.testdir({})
    const file = join(folder, `${taken}.yaml`)
    const free = { gateway: { port: 0 }, admin: { port: 0 }, storage: { path: `./${taken}.db` } }
    const config = { publicUrl: 'https://pay.example.com', ...free, [taken]: { host: '127.0.0.1', port } }
    writeFileSync(file, JSON.stringify({ ...config, plugins: [{ use: 'upstream' }] }))
    const { exited } = runTollgate(t, ['start', '--config', file])
    const patience = AbortSignal.timeout(30_000)
    const ended = await Promise.race([exited, once(patience, 'abort').then(() => undefined)])
    t.match(
      ended,
      { code: 1, stderr: new RegExp(`Another program listens on 127\\.0\\.0\\.1:${port}`) },
      taken,
    )
  }
})
