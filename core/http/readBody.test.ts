import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { readBody } from './readBody.ts'

const requestOf = (body: Readable, length: number) => ({
  header: (name: string) => (name === 'content-length' ? String(length) : undefined),
  body,
})

t.test('a body that somebody has read to its end is none to wait for', async (t) => {
  const body = Readable.from([Buffer.from('hello')], { objectMode: false })
  const outcome = await new Promise((resolve) => {
    body.resume().on('end', () => {
      const reading = readBody(requestOf(body, 5), 100)!
      const told = reading.then(
        () => 'read',
        ({ code }) => code,
      )
      resolve(Promise.race([told, sleep(1_000, 'waits for ever')]))
    })
  })
  t.equal(outcome, 'bad_request')
})

t.test('a body that breaks off is refused, and one that closes when it is whole is read', async (t) => {
  const broken = new Readable({ read() {} })
  const reading = readBody(requestOf(broken, 5), 100)!
  broken.push('he')
  broken.destroy()
  await t.rejects(reading, { code: 'bad_request' })
  const whole = Readable.from([Buffer.from('hello')], { objectMode: false })
  t.equal(String(await readBody(requestOf(whole, 5), 100)), 'hello')
})
