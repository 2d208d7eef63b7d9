#include "record.h"

#include <stddef.h>

const char *pl_record_name(uint16_t kind)
{
    switch (kind) {
#define PL_RECORD_CASE(name, number, text)                                                                                       \
    case number:                                                                                                                 \
        return text;
        PL_RECORD_MAP(PL_RECORD_CASE)
#undef PL_RECORD_CASE
    default:
        return NULL;
    }
}
