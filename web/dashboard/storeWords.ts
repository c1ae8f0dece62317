import type { FormWords } from '../desk/form.ts'

/** What a store is called, where it is opened and where it is changed. */
export const storeWords: FormWords = {
  username: {
    expected: 'Enter 3 to 32 characters of a-z, 0-9 and _.',
    USERNAME_TAKEN: 'Another store has this name. Enter another one.',
  },
  displayName: { expected: 'Enter a name, on one line.' },
  bio: {},
}
