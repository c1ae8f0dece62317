import { join } from 'node:path'
import t from 'tap'
import { runTollgate } from '../test/e2e/helpers/child.ts'
import { addCredentials } from './credentials.ts'

t.test('each file of the folder becomes a variable, without the line end of its editor', async (t) => {
  const CREDENTIALS_DIRECTORY = t.testdir({
    TOLLGATE_SECRET: 'ab\n',
    KEY_2: 'cd\r\n',
    LINES: 'one\ntwo\n\n',
    '..data': {},
    'lower-case': 'no variable',
  })
  const env = { CREDENTIALS_DIRECTORY }
  addCredentials(env)
  t.strictSame(env, { CREDENTIALS_DIRECTORY, TOLLGATE_SECRET: 'ab', KEY_2: 'cd', LINES: 'one\ntwo\n' })
})

t.test('what the environment has wins, and without a folder nothing changes', async (t) => {
  const env = { CREDENTIALS_DIRECTORY: t.testdir({ KEY: 'of the file' }), KEY: 'of the environment' }
  addCredentials(env)
  t.equal(env.KEY, 'of the environment')
  const none = {}
  addCredentials(none)
  t.strictSame(none, {})
})

t.test('a configuration names a credential like a variable, in every command', async (t) => {
  const folder = t.testdir({
    'tollgate.yaml': 'publicUrl: ${PUBLIC_URL}\nsecretFile: ./secret\n',
    credentials: { PUBLIC_URL: 'https://pay.example.com\n', TOLLGATE_SECRET: `${'ab'.repeat(32)}\n` },
  })
  const check = (directory: string) =>
    runTollgate(t, ['check', '--config', join(folder, 'tollgate.yaml')], { CREDENTIALS_DIRECTORY: directory })
      .exited
  t.match(await check(join(folder, 'credentials')), { code: 0 })
  const { code, stderr } = await check(join(folder, 'gone'))
  t.equal(code, 2)
  t.match(stderr, /^Expected CREDENTIALS_DIRECTORY to be a folder .*: ENOENT/)
  t.notMatch(stderr, /\n\s+at /, 'no stack trace')
})
