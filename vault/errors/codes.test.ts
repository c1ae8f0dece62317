import t from 'tap'
import { codeTable } from '../../core/config/docs.ts'
import { vaultCodes } from './codes.ts'

t.test(
  'every code of the vault stands in its table, with its status, its meaning and its remedy',
  async (t) => {
    const lines = codeTable(vaultCodes).split('\n').slice(2)
    t.equal(lines.length, Object.keys(vaultCodes).length)
    for (const [code, { status, meaning, remedy }] of Object.entries(vaultCodes)) {
      const own = lines.filter((line) => line.startsWith(`| \`${code}\` `))
      t.equal(own.length, 1, code)
      const cells = own[0]!.split(' | ').map((cell) => cell.replace(/^\|| \|$/g, '').trim())
      t.strictSame([cells[1], cells[3], cells[4]], [String(status), meaning, remedy])
    }
  },
)
