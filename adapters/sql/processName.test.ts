import { spawnSync } from 'node:child_process'
import t from 'tap'

const env = {
  ...process.env,
  NODE: process.execPath,
  MODULE: new URL('./processName.ts', import.meta.url).href,
}

/** What a script says in namespaces of its own; undefined where the system gives nobody any. */
function inRoom(flags: string, shell: string, script: string): string | undefined {
  const options = { encoding: 'utf8', env: { ...env, SCRIPT: script } } as const
  const { status, stdout } = spawnSync('unshare', [flags, 'sh', '-c', shell], options)
  return status === 0 ? stdout.trim() : undefined
}

t.test('where /proc tells of another room, a process has no name there', async (t) => {
  // The shell stays, so that the system has not to take one for the other.
  const shell = '"$NODE" --input-type=module -e "$SCRIPT"; exit $?'
  const said = inRoom('-rpf', shell, 'console.log((await import(process.env.MODULE)).thisProcess)')
  if (said === undefined) return t.pass('no namespaces here', { skip: 'no namespaces here' })
  t.equal(said, 'null')
})

t.test('a process of another user that /proc hides has not ended', async (t) => {
  const script = `
    import { spawnSync } from 'node:child_process'
    const { hasEnded, thisProcess } = await import(process.env.MODULE)
    const [, name] = process.argv
    if (name !== undefined) console.log(hasEnded(name))
    else {
      const args = ['--input-type=module', '-e', process.env.SCRIPT, thisProcess]
      const { stdout } = spawnSync(process.execPath, args, { uid: 65534, gid: 65534, encoding: 'utf8' })
      console.log(stdout.trim())
    }`
  const shell = 'mount -t proc -o hidepid=2 proc /proc && "$NODE" --input-type=module -e "$SCRIPT"'
  const said = inRoom('-m', shell, script)
  if (said === undefined)
    return t.pass('nobody may hide processes here', { skip: 'nobody may hide processes here' })
  t.equal(said, 'false')
})
