import { PassThrough, Writable } from 'node:stream'
import t from 'tap'
import { askSecret } from './flags.ts'

function terminal() {
  const written: string[] = []
  const stderr = new Writable({
    write: (chunk, _encoding, done) => {
      written.push(String(chunk))
      done()
    },
  })
  return { stdin: new PassThrough(), stderr, shown: () => written.join('') }
}

t.test('what is typed is taken up to the end of the line, and nothing of it is shown', async (t) => {
  const { shown, ...io } = terminal()
  const asked = askSecret('Password: ', io)
  io.stdin.write('correct hörse \b battery')
  io.stdin.write('\r')
  t.equal(await asked, 'correct hörse battery')
  t.equal(shown(), 'Password: \n')
})

t.test('Ctrl-C and the end of input are no password', async (t) => {
  for (const end of ['\u0003', '\u0004']) {
    const { shown, ...io } = terminal()
    const asked = askSecret('Password: ', io)
    io.stdin.write(end)
    await t.rejects(asked, { message: 'Canceled before a password was entered.' })
    t.equal(shown(), 'Password: \n')
  }
})
