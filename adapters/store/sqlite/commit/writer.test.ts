import t from 'tap'
import { silentLog } from '../../../../core/ports/log.ts'
import { startWriter } from './writer.ts'

/** A writer's thread that responds to every write with the number of writes before it. */
const counting = new URL(
  `data:text/javascript,${encodeURIComponent(`
  import { parentPort } from 'node:worker_threads'
  let count = 0
  parentPort.on('message', (message) => {
    if ('close' in message) return process.exit()
    parentPort.postMessage({ results: message.writes.map(() => count++), failures: null })
  })
  parentPort.postMessage('ready')
`)}`,
)

t.test('a small write waits for few of the large answers that were handed over before it', async (t) => {
  const options = { path: '', isDurable: false, flushMs: 0, maxRows: 1 }
  const writer = await startWriter(options, silentLog, counting)
  const write = (bytes: number) => {
    const args = { response: [200, '[]', new Uint8Array(bytes)] }
    return writer.write('apply' as never, args as never) as Promise<unknown> as Promise<number>
  }
  const large = Array.from({ length: 20 }, () => write(3_000_000))
  const small = write(10)
  t.equal(await small, 2, 'two are as much as the thread has in hand')
  const places = await Promise.all(large)
  t.strictSame(
    places,
    places.toSorted((a, b) => a - b),
    'those in their order',
  )
  t.equal(new Set(places).size, 20)
  t.equal(await write(20_000_000), 21, 'one alone, whatever its size')

  const last = [1, 2, 3, 4].map(() => write(5_000_000))
  await writer.close()
  t.equal((await Promise.all(last)).length, 4, 'closing leaves none behind')
})
