import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createPipeline } from '../program.ts'

t.test('a link cannot be created with one price and prices by request together', async (t) => {
  const file = join(t.testdir(), 'prices.json')
  writeFileSync(file, JSON.stringify({ rules: [], otherwise: '0.05' }))
  const { exitCode } = process
  t.teardown(() => {
    process.exitCode = exitCode
  })
  let written = ''
  const { write } = process.stderr
  t.teardown(() => {
    process.stderr.write = write
  })
  process.stderr.write = ((text: string | Uint8Array) => {
    written += String(text)
    return true
  }) as typeof write
  const more = ['--price', '5', '--price-rules', file, '--gateway', 'http://127.0.0.1:1']
  await createPipeline().parseAsync(['link', 'add', 'https://api.example.com', ...more], { from: 'user' })
  t.equal(process.exitCode, 2)
  t.match(written, 'Expected --price or --price-rules, got both.')
})
