/**
 * A trigger's function. It finds its tables where it was created, whatever the caller's search path is. It returns the row when its
 * name begins with before_.
 */
export const fn = (name: string, body: string): string => `
  CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
  BEGIN
    ${body}
    RETURN ${name.startsWith('before_') ? 'NEW' : 'NULL'};
  END $$;`
