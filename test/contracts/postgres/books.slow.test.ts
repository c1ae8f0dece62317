import t from 'tap'
import { booksContract } from '../books/books.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('books in PostgreSQL', { skip }, async (t) => booksContract(t, makePostgres))
