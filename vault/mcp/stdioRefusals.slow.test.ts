import t from 'tap'
import { createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'

const stdio = ['--mode', 'stdio']

t.test('what can not be served is said on standard error, and standard output stays empty', async (t) => {
  const box = createVaultBox(t)
  for (const [args, message] of [
    [[...stdio, '--agent', 'desk'], /--password-file FILE/],
    [[...stdio, '--agent', 'desk', '--password-file', '-'], /agent uses standard/],
    [[...stdio, ...box.withPassword, '--agent', 'desk', '--port', '1'], /opens no port/],
    [[...stdio, ...box.withPassword, '--agent', 'desk', '--insecure-no-token'], /has its own agent/],
  ] as const) {
    const ran = await box.run(args)
    t.strictSame([ran.status, ran.stdout], [2, ''], args.join(' '))
    t.match(ran.stderr, message)
  }
  t.match(await box.run(['--agent', 'desk', ...box.withPassword]), { status: 2, stderr: /--mode stdio/ })
})

t.test('an agent that is not there, and a vault that runs already, are told with what to do', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const none = await box.run([...stdio, ...box.withPassword])
  t.match([none.status, none.stdout, none.stderr], [1, '', /no agent yet.*agents add/])
  for (const name of ['desk', 'laptop'])
    await box.json(['agents', 'add', name, '--scopes', 'wallet.base', ...box.withPassword])
  const several = await box.run([...stdio, ...box.withPassword])
  t.match([several.status, several.stdout, several.stderr], [1, '', /--agent with one of desk, laptop/])
  const unknown = await box.run([...stdio, ...box.withPassword, '--agent', 'nobody'])
  t.strictSame([unknown.status, unknown.stdout], [1, ''])
  t.match(unknown.stderr, /no agent nobody.*agents add/)
  await box.serve(['--insecure-no-token'])
  const second = await box.run([...stdio, ...box.withPassword, '--agent', 'no-token'])
  t.strictSame([second.status, second.stdout], [1, ''])
  t.match(second.stderr, /--mode http-mcp.*\/mcp/)
})
